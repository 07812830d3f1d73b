"""The report: what went wrong, what is missing and what was not met first, then every table.

With all that is needed to do it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.bench.measure import table
from tests.bench.peers.bars import bars, is_measured
from tests.bench.peers.findings import Finding

TITLES = {
    "messages": "messages a round",
    "produce_per_s": "produce, messages/s",
    "consume_per_s": "consume, messages/s",
    "receive_ack_per_s": "received and acknowledged, messages/s",
    "produce_cpu_s_per_million": "server CPU s per million produced",
    "consume_cpu_s_per_million": "server CPU s per million consumed",
    "cpu_s_per_million": "server CPU s per million",
    "rss_mib": "RSS, MiB",
    "first_answer_s": "empty directory to first answer, s",
    "start_s": "of that the server's start, s",
    "rebalance_s": "until the newcomer has its share, s",
    "cpu_ms": "server CPU, ms",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "p999_ms": "p99.9, ms",
    "max_ms": "max, ms",
    "rate": "rate reached, messages/s",
    "share_points_off": "largest distance from the weights, points",
}


def markdown(found: Finding, plots: Iterable[str] = ()) -> str:
    """The whole report."""
    lines = ["## Side by side with other brokers: `make bench-peers`", "", *_first(found), *_how(found)]
    lines += [f"![{Path(plot).stem}]({plot})" for plot in plots] + [""]
    for workload in found.workloads():
        lines += [f"### {workload}", "", *_figures(found, workload), ""]
    return "\n".join(lines).rstrip() + "\n"


def one_line(reason: str) -> str:
    """A failure's reason: of a traceback, how it begins and how it ends."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    return " … ".join(dict.fromkeys([lines[0], lines[-1]])) if lines else "no reason given"


def _first(found: Finding) -> list[str]:
    """Failures, gaps and every bar."""
    rows = bars(found)
    measured = [row for row in rows if is_measured(row)]
    promised = [row for row in measured if row.met is not None]
    missed = [row for row in promised if row.met is False]
    lines = [f"**Failed:** {one.peer} in {name}: {one_line(one.reason)}" for name, one in found.failures()]
    if left := found.not_run():
        lines.append(f"**Not run yet:** {', '.join(left)}.")
    if missed:
        said = "; ".join(f"{row.what}: {row.figure}, bar {row.bar}" for row in missed)
        lines.append(f"**Not met ({len(missed)} of {len(promised)} bars):** {said}.")
    elif promised:
        lines.append(f"All {len(promised)} bars that were measured were met.")
    if gaps := [row.what for row in rows if not is_measured(row)]:
        lines.append(f"**Not measured:** {'; '.join(gaps)}.")
    lines += [f"Not taken part: {name} ({reason})." for name, reason in found.skipped.items()]
    spaced = [text for line in lines for text in (line, "")]
    return [*spaced, table(measured), ""] if measured else spaced


def _how(found: Finding) -> list[str]:
    """Where, with what and when it was measured."""
    facts = "; ".join(f"{name} {fact}" for name, fact in found.machine.items())
    clients = ", ".join(f"{name} {version}" for name, version in found.clients.items())
    commands = " and ".join(f"`{command}`" for command in found.commands)
    name, rounds, more, close = (
        found.scale[field] for field in ("name", "rounds", "throughput_rounds", "close_rounds")
    )
    size = f"scale {name}, {rounds} rounds, {more} of throughput by size, of queues and of long logs"
    size += f", {more + close} where the client is confluent-kafka, commit {found.commit}"
    return [
        f"Made by {commands} ({size}) with {facts}; clients {clients}.",
        "",
        "All servers and clients share that machine. Peers take turns within a workload; a server's first round of a",
        "kind of work is thrown away; figures are medians, ratios compare each round with itself, and a bar is judged",
        "by their median; the lowest and the highest stand beside it. Slow clients get fewer messages. Every message's",
        "answer was checked, the stored count was asked for, and the checksum of all that was read was compared with",
        "what was sent. Whoever failed in that has no figures in the workload. What one has written is synced, and",
        "what it deleted is gone, before the next has its turn. A server that waits may lose pages of its program:",
        "where throughput is measured (sizes and partitions), every server, null brokers too, is woken right before",
        "each timed turn by a tenth of the same work, which is checked and not timed. Clients keep the memory that",
        "they have let go of (`mallopt`): else the sizes of answers decide how often theirs is got page by page.",
        "",
        "| broker | version | durable means |",
        "|---|---|---|",
        *(f"| {one['name']} | {one['version']} | {one['durable']} |" for one in found.peers),
        "",
        "| workload | begun (UTC) | took | load before |",
        "|---|---|---:|---:|",
        *(
            f"| {one.name} | {one.at[:19].replace('T', ' ')} | {one.seconds:.0f} s | {one.load:.2f} |"
            for one in found.measured
        ),
        "",
    ]


def _figures(found: Finding, workload: str) -> list[str]:
    samples = [one for one in found.samples() if one.workload == workload]
    figures = list(dict.fromkeys(name for one in samples for name in one.figures))
    peers = list(dict.fromkeys(one.peer for one in samples))
    lines = ["| broker | " + " | ".join(TITLES.get(name, name) for name in figures) + " |"]
    lines.append("|---|" + "---:|" * len(figures))
    for peer in peers:
        cells = [_figure(found.median(workload, peer, name)) for name in figures]
        lines.append(f"| {peer} | " + " | ".join(cells) + " |")
    return lines


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
