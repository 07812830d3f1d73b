"""The account: where what is stored contradicts what the clients were told. No I/O; each finding is one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from tests.e2e.campaign.ledger import Body, Fate, GroupLedger, Ledger
from tests.e2e.campaign.readers import Row

SHOWN_MAX = 10


def check_stored(ledger: Ledger, rows: Sequence[Row], *, once: bool = True, may_be_lost: bool = False) -> list[str]:
    """Every acknowledged message is there, none that was refused or never sent; each once where that is promised.

    What only a leader has acknowledged may be lost in a cluster.
    """
    counts = Counter(_ids(rows, ledger.kind))
    kept = [] if may_be_lost else ledger.with_fate(Fate.ACKNOWLEDGED)
    found = _say(ledger, "lost", (name for name in kept if name not in counts))
    found += _say(ledger, "refused and stored", (name for name in ledger.with_fate(Fate.REFUSED) if name in counts))
    found += _say(ledger, "stored without being sent", (name for name in counts if name not in ledger.entries))
    if once:
        twice = {name for name, count in counts.items() if count > 1}
        found += _say(ledger, "stored twice", twice) + _where(rows, twice)
    return found


def check_order(ledger: Ledger, rows: Sequence[Row]) -> list[str]:
    """Offsets rise in each partition; each key is in one partition, and its messages in the order they were sent."""
    found: list[str] = []
    offset_before: dict[int, int] = {}
    last: dict[str, tuple[int, int]] = {}
    seen: set[str] = set()
    for row in rows:
        if row.offset <= offset_before.get(row.partition, -1):
            found.append(f"{ledger.kind}: offset {row.offset} of partition {row.partition} was read out of order")
        offset_before[row.partition] = row.offset
        body = Body.decode(row.value)
        # A repeat, where repeats are allowed, does not change the order of the first ones.
        if _kind(body.id) != ledger.kind or body.id in seen:
            continue
        seen.add(body.id)
        partition, number = last.get(body.key, (row.partition, -1))
        if partition != row.partition:
            found.append(f"{ledger.kind}: key {body.key} is in partitions {partition} and {row.partition}")
        if body.number < number:
            found.append(f"{ledger.kind}: {ledger.describe(body.id)} comes after number {number} of {body.key}")
        last[body.key] = row.partition, body.number
    return found[:SHOWN_MAX]


def check_transactions(ledger: Ledger, rows: Sequence[Row], partitions: int) -> list[str]:
    """A transaction is in every partition once, or in none; an aborted one in none."""
    places = Counter((_id(row), row.partition) for row in rows if _kind(_id(row)) == ledger.kind)
    whole = Counter(name for name, _ in places)
    found = _say(ledger, "stored twice", (name for (name, _), count in places.items() if count > 1))
    found += _say(ledger, "torn", (name for name, count in whole.items() if count != partitions))
    found += _say(ledger, "lost", (name for name in ledger.with_fate(Fate.ACKNOWLEDGED) if name not in whole))
    found += _say(ledger, "aborted and read", (name for name in ledger.with_fate(Fate.REFUSED) if name in whole))
    return found


def check_outputs(inputs: Ledger, stored: Sequence[Row], outputs: Sequence[Row]) -> list[str]:
    """Every stored input was transformed exactly once."""
    counts = Counter(_ids(outputs, inputs.kind))
    there = set(_ids(stored, inputs.kind))
    found = _say(inputs, "never transformed", (name for name in there if name not in counts))
    found += _say(inputs, "transformed twice", (name for name, count in counts.items() if count > 1))
    return found + _say(inputs, "transformed without an input", (name for name in counts if name not in there))


def check_group(group: GroupLedger, ledger: Ledger, stored: Sequence[Row], letters: Sequence[Row]) -> list[str]:
    """Every stored message was acked or is a dead letter, and what was acked never came again."""
    mine = Counter(_id(row) for row in letters if row.headers.get("goqueue-dlq-group") == group.group)
    there = set(_ids(stored, ledger.kind))
    settled = group.acked.keys() | group.unknown | mine.keys()
    rules: dict[str, Iterable[str]] = {
        "neither acked nor dead-lettered": (name for name in there if name not in settled),
        "delivered again after its confirmed answer": group.repeated,
        "dead-lettered twice": (name for name, count in mine.items() if count > 1),
        "acked and dead-lettered": (name for name in group.acked if name in mine),
        "rejected and not dead-lettered": (name for name in group.rejected if name not in mine),
        "delivered without being stored": (name for name in group.delivered if name not in there),
        "dead-lettered without being stored": (name for name in mine if name not in there),
    }
    return [line for what, names in rules.items() for line in _say(ledger, f"{what} in group {group.group}", names)]


def check_due(ledger: Ledger, rows: Sequence[Row], due_ms: Mapping[str, int]) -> list[str]:
    """No message that was held back has a timestamp before its time.

    What comes to the broker after its time is published at once and keeps its producer's timestamp.
    """
    stamps = {_id(row): row.timestamp_ms for row in rows if _kind(_id(row)) == ledger.kind}
    held = (name for name in stamps if ledger.entries[name].answered_ms < due_ms[name])
    return _say(ledger, "delivered early", (name for name in held if stamps[name] < due_ms[name]))


def check_runs(runs: Mapping[str, int], rows: Sequence[Row]) -> list[str]:
    """One message for each run, and perhaps one that was under way when the schedule was deleted."""
    counts = Counter(row.key for row in rows)
    return [
        f"{name} had {wanted} runs and {counts[name]} messages"
        for name, wanted in runs.items()
        if counts[name] not in {wanted, wanted + 1}
    ]


def check_readers(topic: str, kafka: Sequence[Row], http: Sequence[Row]) -> list[str]:
    """Both readers see the same messages at the same places."""
    one, other = ({row.place: row for row in rows} for rows in (kafka, http))
    different = sorted(place for place in one.keys() | other.keys() if one.get(place) != other.get(place))
    if not different:
        return []
    first = different[0]
    shown = f"Kafka {one.get(first)}, HTTP {other.get(first)}"
    return [f"{topic}: {len(different)} places differ between the readers, first {first}: {shown}"]


def _id(row: Row) -> str:
    return Body.decode(row.value).id


def _kind(name: str) -> str:
    return name.partition("/")[0]


def _ids(rows: Sequence[Row], kind: str) -> list[str]:
    return [name for name in map(_id, rows) if _kind(name) == kind]


def _where(rows: Sequence[Row], names: Collection[str]) -> list[str]:
    """The places of these messages, and when they were sent, for whoever looks into the logs."""
    found = [row for row in rows if _id(row) in names] if names else []
    return [f"{_id(row)} is at {row.partition}@{row.offset}, of {row.timestamp_ms} ms" for row in found[:SHOWN_MAX]]


def _say(ledger: Ledger, what: str, names: Iterable[str]) -> list[str]:
    """One line for one kind of finding, with the first ids and the kills around them."""
    listed = sorted(names)
    if not listed:
        return []
    shown = ", ".join(map(ledger.describe, listed[:SHOWN_MAX]))
    return [f"{ledger.kind}: {len(listed)} {what}: {shown}"]
