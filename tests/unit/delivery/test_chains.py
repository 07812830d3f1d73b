"""KeyChains: the first of a key goes, the others wait for it."""

from __future__ import annotations

from goqueue.delivery.leases.key_order import KeyChains


def test_the_first_of_a_key_is_in_the_way_of_the_others_until_it_leaves() -> None:
    chains = KeyChains()
    chains.join(3, [10, 11, 12], [7, 0, 7])

    assert (chains.is_first(10), chains.is_first(12)) == (True, False)
    assert chains.leave(10) == (3, 12)
    assert chains.is_first(12)


def test_the_last_of_a_key_leaves_nothing_behind() -> None:
    chains = KeyChains()
    chains.join(0, [10], [7])

    assert chains.leave(10) is None
    assert not chains
    assert (0, 7) not in chains


def test_what_has_no_key_is_in_nobodys_way() -> None:
    chains = KeyChains()
    chains.join(0, [10, 11], [7, 0])

    assert chains.leave(11) is None
    assert (chains.keys([10, 11]), chains.keys([11])) == ([7, 0], [])


def test_keys_of_different_lanes_do_not_wait_for_each_other() -> None:
    chains = KeyChains()
    chains.join(0, [10], [7])
    chains.join(1, [11], [7])

    assert (chains.is_first(10), chains.is_first(11)) == (True, True)


def test_chains_that_were_joined_in_any_order_are_sorted() -> None:
    chains = KeyChains()
    chains.join(2, [12, 10, 11], [7, 7, 8])

    assert sorted(chains.sort(lambda _offset: False)) == [(2, 10), (2, 11)]
    assert chains.leave(10) == (2, 12)


def test_a_reopened_message_waits_for_the_one_that_is_out_and_goes_before_those_behind_it() -> None:
    chains = KeyChains()
    chains.join(2, [9, 12], [7, 7])
    chains.join(2, [5], [7])
    assert not chains.is_first(5)

    assert list(chains.sort(lambda offset: offset != 9)) == [(2, 9)]
    assert chains.leave(9) == (2, 5)
    assert chains.leave(5) == (2, 12)
