"""What was promised, and what was measured of it. Ratios are of the same round.

A bar is judged by the median of the rounds; the lowest and the highest stand beside it, so that
everybody sees what is noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from tests.bench.measure import Bar, at_least, at_most, told
from tests.bench.peers.findings import Finding

OURS, OURS_HTTP, KAFKA, NULL = "GoQueue, Kafka wire", "GoQueue, HTTP", "Apache Kafka", "null broker"
NULL_STORING = "null broker that stores"
NATS, REDIS, RABBIT = "NATS JetStream", "Redis Streams", "RabbitMQ, quorum queue"
SIZES = ("100 B", "1000 B", "10000 B")
LOG = "GiB in the log"
COST = "cpu_s_per_million"
NOT_MEASURED = "not measured"


def bars(found: Finding) -> list[Bar]:
    """All of them; one without a figure says so, and is neither met nor missed."""
    return [*_wire(found), *_durable_and_queue(found), *_growth(found)]


def is_measured(bar: Bar) -> bool:
    """Whether there is a figure."""
    return bar.figure != NOT_MEASURED


def _wire(found: Finding) -> list[Bar]:
    rows = []
    for size in SIZES:
        for figure, what in (("produce_per_s", "produce"), ("consume_per_s", "consume")):
            null, kafka = (found.ratios(size, OURS, theirs, figure) for theirs in (NULL, KAFKA))
            rows.append(_least(f"{what} {size}, share of the null broker", null, 0.85))
            rows.append(_least(f"{what} {size}, times Apache Kafka", kafka, 1.0))
        rows += _least_that_stores(found, size)
        rows.append(_most(f"CPU of {size}, times Apache Kafka", found.ratios(size, OURS, KAFKA, COST), 1.0))
    late = found.ratios("latency at 5000/s", OURS, KAFKA, "p99_ms")
    rows.append(_most("p99 at 5,000/s, times Apache Kafka", late, 1.0))
    start = found.ratios("start-up", KAFKA, OURS, "first_answer_s")
    rows.append(_least("start-up from an empty directory, Apache Kafka's time as a multiple of ours", start, 5.0))
    started = found.ratios("start-up", KAFKA, OURS, "start_s")
    rows += _told("start-up, without the time that Kafka's tool formats the directory, the same", started)
    rebalance = found.ratios("rebalance", OURS, KAFKA, "rebalance_s")
    rows.append(_most("rebalance by cooperative-sticky, times Apache Kafka", rebalance, 1.0))
    return rows


def _least_that_stores(found: Finding, size: str) -> list[Bar]:
    """What writing alone costs, which no broker can do without: said beside the bar that has no part for it."""
    pairs = {
        f"produce {size}, share of a null broker that writes to files": (OURS, NULL_STORING),
        f"produce {size}, that one's own share of the null broker": (NULL_STORING, NULL),
    }
    return [bar for what, pair in pairs.items() for bar in _told(what, found.ratios(size, *pair, "produce_per_s"))]


def _durable_and_queue(found: Finding) -> list[Bar]:
    rows = [
        _least(f"durable produce, times {name}", found.ratios("durable", OURS, name, "produce_per_s"), 1.0)
        for name in (KAFKA, RABBIT, NATS, REDIS)
    ]
    for name in (RABBIT, NATS, REDIS):
        # The share group is the fastest way from Python; HTTP is told beside it.
        ours, http = (found.ratios("receive and ack", path, name, "receive_ack_per_s") for path in (OURS, OURS_HTTP))
        rows.append(_least(f"receive and ack in a share group, times {name}", ours, 1.0))
        rows += _told(f"receive and ack over HTTP, times {name}", http)
    off = found.median("priority shares", OURS_HTTP, "share_points_off")
    rows.append(_most("priority shares, distance from the weights", _single(off), 2.0, unit=" points"))
    return rows


def _growth(found: Finding) -> list[Bar]:
    rows = []
    logs = [name for name in found.workloads() if name.endswith(LOG)]
    small, large = (logs[0], logs[-1]) if len(logs) > 1 else ("1 GiB", "the largest log")
    what = f"{large} against {small}: CPU per message"
    rows.append(_most(what, found.growth(small, large, OURS, COST), 1.1))
    rows += _told(f"{what}, Apache Kafka", found.growth(small, large, KAFKA, COST))
    # These did not take turns with each other: only their medians can be compared.
    one, many = (found.median(f"{count} partitions", OURS, COST) for count in (1, 100))
    rows.append(_most("100 partitions against 1: CPU per message", _single(many / one if one and many else None), 1.3))
    return rows


def _single(value: float | None) -> list[float]:
    return [] if value is None else [value]


def _least(what: str, values: Sequence[float], bar: float) -> Bar:
    if not values:
        return Bar(what, NOT_MEASURED, f"≥ {bar:g}")
    return _with_spread(at_least(what, median(values), bar), values)


def _most(what: str, values: Sequence[float], bar: float, *, unit: str = "") -> Bar:
    if not values:
        return Bar(what, NOT_MEASURED, f"≤ {bar:g}{unit}")
    return _with_spread(at_most(what, median(values), bar, unit=unit), values)


def _told(what: str, values: Sequence[float]) -> list[Bar]:
    return [_with_spread(told(what, median(values)), values)] if values else []


def _with_spread(bar: Bar, values: Sequence[float]) -> Bar:
    if len(values) == 1:
        return bar
    return replace(bar, figure=f"{bar.figure} ({min(values):.2f} to {max(values):.2f}, {len(values)} rounds)")
