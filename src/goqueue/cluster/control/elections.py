"""One partition: who stays in sync and who leads, when nodes come and go.

Pure: an assignment and the state of the nodes go in, the assignment that is to be written comes out, or the same one if
nothing has to change. Only members of the in-sync set are elected, then `eligible` ones (see `metadata.eligibility`),
then, where the topic allows it, whoever is there.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import structs

from goqueue.metadata.events import Assignment

NO_LEADER = -1


class Nodes(msgspec.Struct, frozen=True):
    """The nodes as elections see them: those that may lead, and those whose data is gone."""

    electable: frozenset[int]
    emptied: frozenset[int] = frozenset()


class Rules(msgspec.Struct, frozen=True):
    """What a topic asks of elections."""

    min_insync: int
    # Whether a replica that may lack acknowledged records may lead, if nobody else can.
    unclean: bool = False


def is_settled(one: Assignment, nodes: Nodes) -> bool:
    """Whether nothing can have to change: the common case, found fast."""
    return (
        one.leader in nodes.electable
        and not (one.eligible or one.adding or one.removing)
        and nodes.electable.issuperset(one.isr)
        and nodes.emptied.isdisjoint(one.isr)
    )


def elected(one: Assignment, eligible: tuple[int, ...], nodes: Nodes, rules: Rules) -> Assignment:
    """The assignment with in-sync set and leader as the nodes allow; `eligible` is the list that may be believed."""
    can_lead = tuple(node for node in one.isr if node in nodes.electable and node not in nodes.emptied)
    # If none can lead, all that were in sync stay so: whichever comes back first has everything.
    isr = can_lead or tuple(node for node in one.isr if node not in nodes.emptied)
    eligible = tuple(node for node in eligible if node not in nodes.emptied and node not in isr)
    if len(isr) < rules.min_insync:
        eligible += tuple(
            node for node in one.isr if node not in isr and node not in nodes.emptied and node not in eligible
        )
    else:
        eligible = ()
    if one.leader in can_lead:
        return _changed(one, one.leader, isr, eligible)
    in_order = (*one.replicas, *one.adding)
    leader = _first(in_order, can_lead)
    if leader is None:
        leader = _first(in_order, [node for node in eligible if node in nodes.electable])
        if leader is not None:
            others = tuple(node for node in (*eligible, *isr) if node != leader)
            isr, eligible = (leader,), () if rules.min_insync <= 1 else others
    if leader is None and rules.unclean:
        leader = _first(one.replicas, nodes.electable)
        if leader is not None:
            isr, eligible = (leader,), ()
    return _changed(one, NO_LEADER if leader is None else leader, isr, eligible)


def forced(one: Assignment, nodes: Nodes) -> Assignment | None:
    """The assignment with any living replica as leader, although it may lack acknowledged records; None: none lives."""
    leader = _first(one.replicas, nodes.electable)
    return None if leader is None else _changed(one, leader, (leader,), ())


def is_unclean(before: Assignment, eligible: tuple[int, ...], after: Assignment) -> bool:
    """Whether the new leader may lack records that were acknowledged."""
    return after.leader not in (NO_LEADER, before.leader, *before.isr, *eligible)


def preferred(one: Assignment, nodes: Nodes) -> Assignment | None:
    """The assignment with its first replica as leader; None if it leads already, or cannot."""
    first = one.replicas[0]
    if one.leader in (first, NO_LEADER) or first not in one.isr or first not in nodes.electable:
        return None
    return _changed(one, first, one.isr, one.eligible)


def moved(one: Assignment, nodes: Nodes) -> Assignment:
    """The assignment with replicas taken in and out, once those that are added are in sync."""
    if not (one.adding or one.removing) or not set(one.adding) <= set(one.isr):
        return one
    replicas = (*(node for node in one.replicas if node not in one.removing), *one.adding)
    isr = tuple(node for node in one.isr if node in replicas)
    leader = one.leader if one.leader in replicas else _first(replicas, [x for x in isr if x in nodes.electable])
    if leader is None or not isr:
        # What is removed is still the only one that can lead.
        return one
    eligible = tuple(node for node in one.eligible if node in replicas)
    done = structs.replace(one, replicas=replicas, adding=(), removing=())
    return _changed(done, leader, isr, eligible)


def _changed(one: Assignment, leader: int, isr: tuple[int, ...], eligible: tuple[int, ...]) -> Assignment:
    changed = structs.replace(
        one,
        leader=leader,
        # Every leader has an epoch of its own, and so has the time without one.
        leader_epoch=one.leader_epoch + (leader != one.leader),
        isr=isr,
        eligible=eligible,
    )
    return one if changed == one else changed


def _first(in_order: Iterable[int], among: Iterable[int]) -> int | None:
    allowed = frozenset(among)
    return next((node for node in in_order if node in allowed), None)
