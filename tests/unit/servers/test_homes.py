"""Every operation says which node answers it, and replies of several nodes become one."""

from __future__ import annotations

import msgspec

from goqueue.servers.homes.kinds import AtCoordinator, AtLeader, Everywhere, Here
from goqueue.servers.homes.merging import merged
from goqueue.servers.homes.table import HOMES
from goqueue.servers.http.app import ROUTES


def test_every_operation_declares_its_home_and_no_home_is_of_an_operation_that_is_gone() -> None:
    assert {f"{one.method} {one.path}" for one in ROUTES} == set(HOMES)


def test_a_home_names_parts_of_a_request_that_the_operation_has() -> None:
    routes = {f"{one.method} {one.path}": one for one in ROUTES}
    for name, home in HOMES.items():
        match home:
            case AtCoordinator(_, key) if "transactional_id" in key.__qualname__:
                assert "transactional_id" in routes[name].body.__struct_fields__, name
            case Everywhere(rows=str(rows)):
                assert rows in routes[name].replies[200].__struct_fields__, name
            case AtLeader() | AtCoordinator() | Everywhere() | Here():
                pass


class Row(msgspec.Struct):
    """One row."""

    name: str


class Reply(msgspec.Struct):
    """What a node says."""

    rows: list[Row]
    count: int
    late_ms_max: int
    by_topic: dict[str, int]
    word: str = "same"
    skip: int = 0
    limit: int = 0


def test_numbers_are_added_lists_joined_and_the_largest_kept_where_that_is_meant() -> None:
    first = Reply([Row("b"), Row("d")], 2, 5, {"x": 1, "y": 2})
    second = Reply([Row("a"), Row("c")], 2, 9, {"y": 3, "z": 4})
    home = Everywhere(largest=frozenset({"late_ms_max"}), rows="rows", order=("name",))
    whole = msgspec.convert(merged([first, second], home, skip=0, limit=None), Reply)
    assert [row.name for row in whole.rows] == ["a", "b", "c", "d"]
    assert (whole.count, whole.late_ms_max, whole.by_topic, whole.word) == (4, 9, {"x": 1, "y": 5, "z": 4}, "same")


def test_a_page_is_cut_from_the_sorted_rows_of_all() -> None:
    first, second = Reply([Row("b"), Row("d")], 2, 0, {}), Reply([Row("a"), Row("c")], 2, 0, {})
    home = Everywhere(rows="rows", order=("name",), is_paged=True)
    whole = msgspec.convert(merged([first, second], home, skip=1, limit=2), Reply)
    assert [row.name for row in whole.rows] == ["b", "c"]
    assert (whole.count, whole.skip, whole.limit) == (2, 1, 2)
