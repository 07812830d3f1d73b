"""The step on the way in that checks records, and removes or refuses the bad ones.

A topic that asks for names of schemas alone is checked in the step itself. What takes time is done before:
a batch that comes without its outcome is sent back (`NeedsCheck`), so no front-end can pass the check by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from goqueue.broker.arrival import Arrival, Facts, NeedsCheck
from goqueue.broker.refused_records import refused_values
from goqueue.records import NewRecord, Record
from goqueue.schemas.validation.checker import SchemaChecker
from goqueue.schemas.validation.quarantine import Quarantine
from goqueue.schemas.validation.rules import CheckLevel, is_set

if TYPE_CHECKING:
    from goqueue.broker.partitions import Partition


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
        if self.is_refusing(arrival.partition) or arrival.header.is_transactional:
            raise refused_values(bad)
        self._quarantine.move(arrival, bad)

    def _bad_ids(self, arrival: Arrival) -> Mapping[int, str]:
        place = arrival.partition
        rules = self._checker.rules(place)
        if not rules:
            return {}
        if any(rule.level is CheckLevel.FULL for rule in rules) or not self._quarantine.is_ready(place):
            raise NeedsCheck
        return self._checker.check_ids(place, rules, arrival.records())

    # --- beforehand -----------------------------------------------------------------------

    def is_needed(self, partition: Partition) -> bool:
        """Whether records of this partition are checked at all."""
        return self.applies(partition, Facts()) and bool(self._checker.rules(partition))

    def is_refusing(self, partition: Partition) -> bool:
        """Whether a bad record is refused; else it is quarantined."""
        return partition.config.schema_invalid == "refuse"

    async def check(self, partition: Partition, records: Sequence[Record | NewRecord]) -> Mapping[int, str]:
        """Why records are not allowed, by position."""
        await self._quarantine.make_ready(partition)
        return await self._checker.check(partition, records)
