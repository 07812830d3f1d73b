"""The step on the way in that checks records, and removes or refuses the bad ones.

A topic that asks for names of schemas alone is checked in the step itself. What takes time is done before:
a batch that comes without its outcome is sent back (`NeedsCheck`), so no front-end can pass the check by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from goqueue.broker.arrivals.arrival import Arrival, Facts, NeedsCheck
from goqueue.broker.arrivals.refused_records import refused_values
from goqueue.caller import INTERNAL
from goqueue.errors import CoordinatorUnavailable
from goqueue.records import NewRecord, Record
from goqueue.schemas.validation.checker import SchemaChecker
from goqueue.schemas.validation.quarantine import Quarantine
from goqueue.schemas.validation.rules import CheckLevel, Rule, is_set

if TYPE_CHECKING:
    from goqueue.broker.replicas.partitions import Partition


class CheckSchemas:
    """A step, and what checks values beforehand (`broker.arrival.ChecksValues`)."""

    def __init__(self, checker: SchemaChecker, quarantine: Quarantine) -> None:
        self._checker = checker
        self._quarantine = quarantine

    # --- the step -----------------------------------------------------------------------

    def applies(self, partition: Partition, _facts: Facts) -> bool:
        """To topics that ask for it, and to all once a subject has a switch of its own."""
        if partition.internal:
            return False
        return is_set(partition.config) or self._checker.has_switches

    def __call__(self, arrival: Arrival) -> None:
        """Refuse or remove what is not allowed."""
        bad = arrival.facts.bad_records
        if bad is None:
            bad = self._bad_ids(arrival)
        if not bad:
            return
        # A dead letter that the broker sends back stays where it is instead of going around in a circle.
        if self.is_refusing(arrival.partition) or arrival.caller is INTERNAL:
            raise refused_values(bad)
        self._quarantine.move(arrival, bad)

    def _bad_ids(self, arrival: Arrival) -> Mapping[int, str]:
        place = arrival.partition
        rules = self._rules(place)
        if rules is None:
            raise NeedsCheck
        if not rules:
            return {}
        if any(rule.level is CheckLevel.FULL for rule in rules) or not self._quarantine.is_ready(place):
            raise NeedsCheck
        bad = self._checker.check_ids(place, rules, arrival.records())
        if bad is None:
            raise NeedsCheck
        return bad

    def _rules(self, place: Partition) -> Sequence[Rule] | None:
        """What is asked of records; None if that can be known after a while, in a cluster."""
        try:
            return self._checker.rules(place)
        except CoordinatorUnavailable:
            if self._checker.may_be_behind:
                return None
            raise

    # --- beforehand -----------------------------------------------------------------------

    def is_needed(self, partition: Partition) -> bool:
        """Whether records of this partition are checked at all, or may be."""
        if not self.applies(partition, Facts()):
            return False
        rules = self._rules(partition)
        return rules is None or bool(rules)

    def is_refusing(self, partition: Partition) -> bool:
        """Whether a bad record is refused; else it is quarantined."""
        return partition.config.schema_invalid == "refuse"

    async def check(self, partition: Partition, records: Sequence[Record | NewRecord]) -> Mapping[int, str]:
        """Why records are not allowed, by position."""
        await self._quarantine.make_ready(partition)
        return await self._checker.check(partition, records)
