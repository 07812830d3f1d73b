"""Two pictures: throughput as bars, latency by percentile."""

from __future__ import annotations

from pathlib import Path

from tests.bench.peers.findings import Finding
from tests.bench.peers.report import TITLES

PERCENTILES = ("p50_ms", "p99_ms", "p999_ms")


def draw(found: Finding, directory: Path) -> list[str]:
    """Write what there are figures for; returns the names of the files."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures give the same file.
    mpl.rcParams["svg.hashsalt"] = "goqueue"
    made = []
    sizes = [name for name in found.workloads() if name.endswith(" B")]
    if sizes:
        made.append(_throughput(found, sizes, directory / "peers-throughput.svg"))
    rates = [name for name in found.workloads() if name.startswith("latency at")]
    if rates:
        made.append(_latency(found, rates, directory / "peers-latency.svg"))
    return made


def _throughput(found: Finding, sizes: list[str], path: Path) -> str:
    from matplotlib import pyplot as plt

    figure, rows = plt.subplots(len(sizes), 2, figsize=(11, 2.6 * len(sizes)), squeeze=False, layout="constrained")
    for row, size in zip(rows, sizes, strict=True):
        for axes, name in zip(row, ("produce_per_s", "consume_per_s"), strict=True):
            values = [(peer["name"], found.median(size, peer["name"], name)) for peer in found.peers]
            shown = [(peer, value) for peer, value in values if value is not None]
            bars = axes.barh([peer for peer, _ in shown], [value for _, value in shown])
            axes.bar_label(bars, labels=[f"{value:,.0f}" for _, value in shown], padding=3, fontsize=8)
            axes.set_title(f"{TITLES[name]}, {size}", fontsize=10)
            axes.margins(x=0.2)
            axes.invert_yaxis()
    return _save(figure, path)


def _latency(found: Finding, rates: list[str], path: Path) -> str:
    from matplotlib import pyplot as plt

    figure, row = plt.subplots(1, len(rates), figsize=(5.5 * len(rates), 4), squeeze=False, layout="constrained")
    for axes, rate in zip(row[0], rates, strict=True):
        for peer in found.peers:
            values = [found.median(rate, peer["name"], name) for name in PERCENTILES]
            if None not in values:
                axes.plot(["p50", "p99", "p99.9"], values, marker="o", label=peer["name"])
        axes.set_yscale("log")
        axes.set_ylabel("ms from due to read")
        axes.set_title(rate, fontsize=10)
        axes.legend(fontsize=8)
    return _save(figure, path)


def _save(figure: object, path: Path) -> str:
    from matplotlib import pyplot as plt

    figure.savefig(path, metadata={"Date": None})  # type: ignore[attr-defined]
    plt.close("all")
    return path.name
