"""The checker: which records of a batch are not allowed, and why.

Null keys and values pass. What costs a user's schema is done by the schema worker, all values of one schema at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.errors import CoordinatorUnavailable, InvalidSchema, InvalidValue
from goqueue.formats.envelope import Envelope, message_of, open_envelope
from goqueue.formats.jobs import CheckValues
from goqueue.formats.source import SchemaType
from goqueue.records import Header, NewRecord, Record
from goqueue.schemas.sources import source_of
from goqueue.schemas.state import RegistryState
from goqueue.schemas.validation.allowed import Allowed, AllowedSchemas
from goqueue.schemas.validation.rules import CheckLevel, Rule, rule_of
from goqueue.schemas.view import RegistryView
from goqueue.schemas.workers import RunsJobs, result_of

if TYPE_CHECKING:
    from goqueue.broker.replicas.partitions import Partition

# Records looked at before others get their turn on the loop.
_RECORDS_AT_ONCE = 1000
_JOB_BYTES_MAX = 1024 * 1024
_PREFIX_BYTES = 5
# A value that begins with its first byte, of the first message if it is Protobuf's.
_NO_PREFIX = Envelope(None, None, 0, in_header=True)


class Fitting(NamedTuple):
    """Values that must fit one schema, with their positions and the indexes of Protobuf messages."""

    positions: list[int]
    values: list[bytes]
    indexes: list[tuple[int, ...]]


class SchemaChecker:
    """Checks records of topics."""

    def __init__(self, view: RegistryView, worker: RunsJobs) -> None:
        self._view = view
        self._worker = worker
        self._allowed = AllowedSchemas()
        # Counted for the metrics, by topic.
        self.checked: Counter[str] = Counter()
        self.invalid: Counter[str] = Counter()

    @property
    def has_switches(self) -> bool:
        """Whether a subject overrides what its topic says.

        While a node of its own loads its registry, none does. A node of a cluster takes batches before it has a copy
        of the registry, and then cannot tell.
        """
        known = self._view.known
        return bool(known.switched) if known is not None else self._view.may_have_switches

    def rules(self, partition: Partition) -> list[Rule]:
        """What is asked of the records of a partition; empty for nothing.

        Raises `CoordinatorUnavailable` if this node cannot tell, or not well enough to judge records by it.
        """
        known, config, topic = self._view.known or self.state(), partition.config, partition.topic_name
        found = [rule_of(config, topic, known, is_key=is_key) for is_key in (False, True)]
        rules = [rule for rule in found if rule.level is not CheckLevel.OFF]
        if rules:
            self.state()
        return rules

    @property
    def may_be_behind(self) -> bool:
        """Whether a record that is not allowed here may be allowed by what another node knows."""
        return self._view.may_be_behind

    def state(self) -> RegistryState:
        """The registry as it is now."""
        state = self._view.state
        if state is None:
            raise CoordinatorUnavailable("the schema registry is being loaded, or cannot be reached")
        return state

    def check_ids(
        self, partition: Partition, rules: Sequence[Rule], records: Sequence[Record]
    ) -> Mapping[int, str] | None:
        """Which records name no schema that is allowed, and why; no value is decoded. None: ask `check` instead."""
        bad: dict[int, str] = {}
        state = self.state()
        for rule in rules:
            allowed = self._allowed.of(state, partition.topic_name, rule)
            _look(state, allowed, rule, records, 0, bad, None)
        if bad and self._view.may_be_behind:
            return None
        self._count(partition.topic_name, len(records), bad)
        return bad

    async def check(self, partition: Partition, records: Sequence[Record | NewRecord]) -> Mapping[int, str]:
        """Which records are not allowed, and why. Nothing is called so before all that is registered is known here."""
        await self._view.wait()
        bad = await self._judge(partition, records)
        if bad and await self._view.catch_up():
            bad = await self._judge(partition, records)
        self._count(partition.topic_name, len(records), bad)
        return bad

    async def _judge(self, partition: Partition, records: Sequence[Record | NewRecord]) -> Mapping[int, str]:
        bad: dict[int, str] = {}
        for rule in self.rules(partition):
            fitting: dict[int, Fitting] | None = {} if rule.level is CheckLevel.FULL else None
            state = self.state()
            allowed = self._allowed.of(state, partition.topic_name, rule)
            for start in range(0, len(records), _RECORDS_AT_ONCE):
                if start:
                    await asyncio.sleep(0)
                _look(state, allowed, rule, records[start : start + _RECORDS_AT_ONCE], start, bad, fitting)
            for schema_id, some in (fitting or {}).items():
                for part in _parts(some):
                    await self._fit(schema_id, part, bad)
        return bad

    async def _fit(self, schema_id: int, some: Fitting, bad: dict[int, str]) -> None:
        # A schema never changes, so its id names what the worker keeps.
        job = CheckValues(str(schema_id), None, tuple(some.values), tuple(some.indexes))
        try:
            outcome = await self._worker.run(job)
            if outcome.unknown:
                state = self.state()
                source = source_of(state, state.schema(schema_id))
                outcome = await self._worker.run(CheckValues(job.key, source, job.values, job.indexes))
            reasons: list[str] = result_of(outcome, list[str])
        except InvalidSchema as problem:
            # Too slow or too large: then these values cannot be told from bad ones.
            reasons = [str(problem)] * len(some.values)
        for position, reason in zip(some.positions, reasons, strict=True):
            if reason:
                bad.setdefault(position, f"schema {schema_id}: {reason}")

    def _count(self, topic: str, checked: int, bad: Mapping[int, str]) -> None:
        self.checked[topic] += checked
        if bad:
            self.invalid[topic] += len(bad)


def _parts(some: Fitting) -> Iterator[Fitting]:
    """Values in jobs of bounded size: making one must not hold up the loop."""
    first = size = 0
    for at, value in enumerate(some.values):
        if size and size + len(value) > _JOB_BYTES_MAX:
            yield Fitting(some.positions[first:at], some.values[first:at], some.indexes[first:at])
            first, size = at, 0
        size += len(value)
    yield Fitting(some.positions[first:], some.values[first:], some.indexes[first:])


def _look(
    state: RegistryState,
    allowed: Allowed,
    rule: Rule,
    records: Sequence[Record | NewRecord],
    first: int,
    bad: dict[int, str],
    fitting: dict[int, Fitting] | None,
) -> None:
    """Find the schema of each record. With `fitting`, collect what must fit it."""
    prefixes, is_key = allowed.prefixes, rule.is_key
    for position, record in enumerate(records, first):
        data = record.key if is_key else record.value
        if data is None:
            continue
        if fitting is None and not record.headers and data[:_PREFIX_BYTES] in prefixes:
            continue
        try:
            schema_id, envelope = _named(state, allowed, rule, data, record.headers)
            if fitting is not None:
                _collect(state, schema_id, data, envelope, position, fitting)
        except InvalidValue as problem:
            bad.setdefault(position, f"key: {problem}" if is_key else str(problem))


def _named(
    state: RegistryState, allowed: Allowed, rule: Rule, data: bytes, headers: Sequence[Header]
) -> tuple[int, Envelope]:
    """The schema of a key or value, and where it is named."""
    envelope = open_envelope(data, headers, is_key=rule.is_key)
    schema_id = envelope.schema_id
    if envelope.guid is not None:
        schema_id = state.by_guid.get(envelope.guid)
        if schema_id is None:
            raise InvalidValue(f"schema {envelope.guid} is not registered")
    if schema_id is not None and allowed.takes(schema_id):
        return schema_id, envelope
    if rule.takes_latest and allowed.latest is not None and not envelope.in_header:
        # Bytes that are no prefix of an allowed schema are taken for a value without one.
        return allowed.latest, _NO_PREFIX
    if schema_id is None:
        raise InvalidValue("no schema is named, by neither a prefix nor a header")
    raise InvalidValue(allowed.reason_against(schema_id))


def _collect(
    state: RegistryState, schema_id: int, data: bytes, envelope: Envelope, position: int, fitting: dict[int, Fitting]
) -> None:
    some = fitting.get(schema_id)
    if some is None:
        some = fitting[schema_id] = Fitting([], [], [])
    start = envelope.start
    if state.schemas[schema_id].type is SchemaType.PROTOBUF:
        indexes, start = message_of(envelope, data)
        some.indexes.append(indexes)
    some.positions.append(position)
    some.values.append(data[start:])
