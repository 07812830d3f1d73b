"""`make bench-peers`: GoQueue beside other brokers, on this machine, in one run.

    python -m tests.bench.peers [--smoke | --quick | --full] [--peers NAME ...] [--only WORKLOAD ...]
                                [--rounds N] [--log-gib 1 10 50] [--directory DIR] [--out DIR] [--publish]

Brokers that are not installed are left out, with a line that says how to get them; nothing is
downloaded (`make peers-install` does that). Writes peers.json, peers.md and two plots to
`--out`; `--publish` also puts the report into docs/benchmarks.md. Exit code 1 if a bar was
missed, except in a smoke run, which is too short to tell.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tests.bench.peers import plots, report
from tests.bench.peers.peer_goqueue import GoQueueHttp, GoQueueKafka
from tests.bench.peers.peer_kafka import ApacheKafka
from tests.bench.peers.peer_nats import NatsJetStream
from tests.bench.peers.peer_null import NullBroker
from tests.bench.peers.peer_rabbitmq import RabbitQuorum, RabbitStream
from tests.bench.peers.peer_redis import RedisStreams
from tests.bench.peers.servers import Peer
from tests.bench.peers.turns import SCALES, Run, Scale
from tests.bench.peers.workloads import plan

DOCS = Path(__file__).parents[3] / "docs"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
PEERS: dict[str, Peer] = {
    "goqueue": GoQueueKafka(),
    "goqueue-http": GoQueueHttp(),
    "kafka": ApacheKafka(),
    "nats": NatsJetStream(),
    "redis": RedisStreams(),
    "rabbitmq-quorum": RabbitQuorum(),
    "rabbitmq-stream": RabbitStream(),
    "null": NullBroker(),
}


def main() -> int:
    """Run what was asked for and write the report."""
    # Whoever stops the run stops the servers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = _options()
    scale = _scale(options)
    console = Console(stderr=True, highlight=False)
    wanted = [PEERS[name] for name in options.peers]
    skipped = report.skipped(wanted)
    for name, reason in skipped.items():
        console.print(f"left out: {name} {reason}")
    workloads = plan(scale)
    unknown = sorted(set(options.only or []) - set(workloads))
    if unknown:
        console.print(f"no workload {', '.join(unknown)} at this scale; there are: {', '.join(workloads)}")
        return 2
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        names = [name for name in workloads if not options.only or name in options.only]
        task = progress.add_task("", total=len(names))
        taking_part = [peer for peer in wanted if peer.name not in skipped]
        with Run(taking_part, scale, options.directory, lambda step: progress.update(task, description=step)) as run:
            for name in names:
                workloads[name](run)
                progress.advance(task)
    found = report.finding(run, "python -m tests.bench.peers " + shlex.join(sys.argv[1:]), skipped)
    _write(found, Path(options.out), publish=options.publish)
    missed = any(bar.met is False for bar in report.bars(found))
    return 1 if missed and scale.name != "smoke" else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    for name in SCALES:
        size.add_argument(f"--{name}", dest="scale", action="store_const", const=name)
    parser.set_defaults(scale="quick")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", help="100B, latency-5000, durable, queue, ...")
    parser.add_argument("--rounds", type=int, help="instead of the scale's own number")
    parser.add_argument("--log-gib", type=int, nargs="+", help="sizes of the log for the workload log-NGiB")
    parser.add_argument("--directory", help="where the brokers' data goes")
    parser.add_argument("--out", default="bench-results", help="where the report goes")
    parser.add_argument("--publish", action="store_true", help="put the report into docs/benchmarks.md")
    return parser.parse_args()


def _scale(options: argparse.Namespace) -> Scale:
    scale = SCALES[options.scale]
    if options.rounds is not None:
        scale = replace(scale, rounds=max(1, options.rounds))
    return scale if options.log_gib is None else replace(scale, log_gib=tuple(options.log_gib))


def _write(found: report.Finding, out: Path, *, publish: bool) -> None:
    out.mkdir(parents=True, exist_ok=True)
    names = plots.draw(found, out)
    text = report.markdown(found, names)
    (out / "peers.md").write_text(text)
    (out / "peers.json").write_text(json.dumps(found.as_json(), indent=1))
    print(text)
    if publish:
        images = DOCS / "images"
        images.mkdir(exist_ok=True)
        for name in names:
            shutil.copy(out / name, images / name)
        page = DOCS / "benchmarks.md"
        before, _, rest = page.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        linked = report.markdown(found, [f"images/{name}" for name in names])
        page.write_text(f"{before.rstrip()}\n\n{BEGIN}\n{linked}{END}\n{after.lstrip()}")


if __name__ == "__main__":
    sys.exit(main())
