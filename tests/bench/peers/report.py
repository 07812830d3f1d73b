"""The report: what was not met first, then every table, with all that is needed to do it again."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from tests.bench.measure import Bar, at_least, at_most, table
from tests.bench.peers.servers import Peer
from tests.bench.peers.turns import Run, Sample

OURS, OURS_HTTP, KAFKA, NULL = "GoQueue, Kafka wire", "GoQueue, HTTP", "Apache Kafka", "null broker"
CLIENTS = ("confluent-kafka", "redis", "nats-py", "pika")
TITLES = {
    "produce_per_s": "produce, messages/s",
    "consume_per_s": "consume, messages/s",
    "receive_ack_per_s": "received and acknowledged, messages/s",
    "produce_cpu_s_per_million": "server CPU s per million produced",
    "consume_cpu_s_per_million": "server CPU s per million consumed",
    "cpu_s_per_million": "server CPU s per million",
    "rss_mib": "RSS, MiB",
    "start_s": "start to first answer, s",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "p999_ms": "p99.9, ms",
    "max_ms": "max, ms",
    "rate": "rate reached, messages/s",
    "share_points_off": "largest distance from the weights, points",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Everything that the report is written from."""

    machine: dict[str, str]
    command: str
    scale: str
    peers: list[dict[str, str]]
    skipped: dict[str, str]
    samples: list[Sample]

    def as_json(self) -> dict[str, Any]:
        """For other programs."""
        return asdict(self) | {"bars": [asdict(bar) for bar in bars(self)]}

    def median(self, workload: str, peer: str, figure: str) -> float | None:
        """Over the rounds; None if it was not measured."""
        values = [
            one.figures[figure]
            for one in self.samples
            if one.workload == workload and one.peer == peer and figure in one.figures
        ]
        return median(values) if values else None

    def ratio(self, workload: str, ours: str, theirs: str, figure: str) -> float | None:
        """Ours over theirs: each round is compared with itself, then the median."""
        rounds: dict[int, dict[str, float]] = {}
        for one in self.samples:
            if one.workload == workload and one.peer in {ours, theirs} and figure in one.figures:
                rounds.setdefault(one.round, {})[one.peer] = one.figures[figure]
        ratios = [row[ours] / row[theirs] for row in rounds.values() if len(row) == 2 and row[theirs]]
        return median(ratios) if ratios else None

    def workloads(self) -> list[str]:
        """In the order in which they ran."""
        return list(dict.fromkeys(one.workload for one in self.samples))


def finding(run: Run, command: str, skipped: dict[str, str]) -> Finding:
    """What a finished run has to say."""
    peers = [{"name": one.name, "version": one.version(), "durable": one.durability} for one in run.peers]
    return Finding(machine(), command, run.scale.name, peers, skipped, run.samples)


def machine() -> dict[str, str]:
    """Where this was measured."""
    model = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    return {
        "processor": f"{model}, {os.cpu_count()} cores",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
        "load before": f"{os.getloadavg()[0]:.2f}",
        "clients": ", ".join(f"{name} {found}" for name in CLIENTS if (found := _installed(name))),
    }


def bars(found: Finding) -> list[Bar]:
    """What was promised, for as much of it as was measured. Ratios are of the same round."""
    rows: list[Bar] = []

    def ratio(
        what: str, workload: str, ours: str, theirs: str, figure: str, least: float | None, most: float | None
    ) -> None:
        value = found.ratio(workload, ours, theirs, figure)
        if value is not None and least is not None:
            rows.append(at_least(what, value, least))
        elif value is not None and most is not None:
            rows.append(at_most(what, value, most))

    for size in ("100 B", "1000 B", "10000 B"):
        for figure, what in (("produce_per_s", "produce"), ("consume_per_s", "consume")):
            ratio(f"{what} {size}, share of the null broker", size, OURS, NULL, figure, 0.85, None)
            ratio(f"{what} {size}, times Apache Kafka", size, OURS, KAFKA, figure, 1.0, None)
        ratio(f"CPU of {size}, times Apache Kafka", size, OURS, KAFKA, "cpu_s_per_million", None, 1.0)
    ratio("p99 at 5,000/s, times Apache Kafka", "latency at 5000/s", OURS, KAFKA, "p99_ms", None, 1.0)
    ratio("rebalance by cooperative-sticky, times Apache Kafka", "rebalance", OURS, KAFKA, "rebalance_s", None, 1.0)
    ratio("start-up, Apache Kafka's time as a multiple of ours", "start-up", KAFKA, OURS, "start_s", 5.0, None)
    for peer in found.peers:
        name = peer["name"]
        if "GoQueue" not in name and name != NULL:
            ratio(f"durable produce, times {name}", "durable", OURS, name, "produce_per_s", 1.0, None)
            for ours in (OURS, OURS_HTTP):
                what = f"receive and ack, {ours}, times {name}"
                ratio(what, "receive and ack", ours, name, "receive_ack_per_s", 1.0, None)
    off = found.median("priority shares", OURS_HTTP, "share_points_off")
    if off is not None:
        rows.append(at_most("priority shares, distance from the weights", off, 2.0, unit=" points"))
    rows += _growth(found, "100 partitions against 1: CPU per message", "1 partitions", "100 partitions", 1.3)
    logs = [name for name in found.workloads() if name.endswith("GiB in the log")]
    if len(logs) > 1:
        rows += _growth(found, f"{logs[-1]} against {logs[0]}: CPU per message", logs[0], logs[-1], 1.1)
    return rows


def markdown(found: Finding, plots: Iterable[str] = ()) -> str:
    """The whole report."""
    rows = bars(found)
    missed = [row for row in rows if row.met is False]
    lines = ["## Side by side with other brokers: `make bench-peers`", ""]
    if missed:
        lines += ["**Not met:** " + "; ".join(f"{row.what}: {row.figure} (bar {row.bar})" for row in missed) + ".", ""]
    elif rows:
        lines += [f"All {len(rows)} bars were met.", ""]
    facts = "; ".join(f"{name} {fact}" for name, fact in found.machine.items())
    lines += [
        f"Made by `{found.command}` (scale {found.scale}) with {facts}.",
        "",
        "All servers and clients share that machine. Peers take turns within one run, after a round that is thrown",
        "away; figures are medians, ratios compare each round with itself. Every message's answer was checked, the",
        "stored count was asked for, and the checksum of all that was read was compared with what was sent.",
        "",
        "| broker | version | durable means |",
        "|---|---|---|",
        *(f"| {one['name']} | {one['version']} | {one['durable']} |" for one in found.peers),
        "",
    ]
    lines += [f"Not taken part: {name} ({reason})." for name, reason in found.skipped.items()]
    lines += [""] if found.skipped else []
    lines += [table(rows), ""] if rows else []
    lines += [f"![{Path(plot).stem}]({plot})" for plot in plots] + [""]
    for workload in found.workloads():
        lines += [f"### {workload}", "", *_table(found, workload), ""]
    return "\n".join(lines).rstrip() + "\n"


def _table(found: Finding, workload: str) -> list[str]:
    samples = [one for one in found.samples if one.workload == workload]
    figures = list(dict.fromkeys(name for one in samples for name in one.figures))
    peers = list(dict.fromkeys(one.peer for one in samples))
    lines = ["| broker | " + " | ".join(TITLES.get(name, name) for name in figures) + " |"]
    lines.append("|---|" + "---:|" * len(figures))
    for peer in peers:
        cells = [_figure(found.median(workload, peer, name)) for name in figures]
        lines.append(f"| {peer} | " + " | ".join(cells) + " |")
    return lines


def _growth(found: Finding, what: str, small: str, large: str, most: float) -> Sequence[Bar]:
    before = found.median(small, OURS, "cpu_s_per_million")
    after = found.median(large, OURS, "cpu_s_per_million")
    return [at_most(what, after / before, most)] if before and after else []


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def skipped(peers: Sequence[Peer]) -> dict[str, str]:
    """Who cannot take part, and how to change that."""
    return {peer.name: reason for peer in peers if (reason := peer.missing()) is not None}
