"""`make bench-peers`: GoQueue beside other brokers, on this machine, in one run.

    python -m tests.bench.peers [--smoke | --quick | --full] [--peers NAME ...] [--only WORKLOAD ...]
                                [--rounds N] [--log-gib 1 10 30] [--directory DIR] [--out DIR]
                                [--resume [--retry]] [--publish]

Brokers that are not installed are left out, with a line that says how to get them; nothing is
downloaded (`make peers-install` does that). Writes peers.json, peers.md and two plots to `--out`
after every workload. A run that was interrupted is gone on with by the same command with
`--resume`: workloads that are there are not measured again, except with `--retry` those in which
a peer failed. `--publish` puts the report of the finished run into docs/benchmarks.md.

Exit code 1 if a bar was missed (except in a smoke run, which is too short to tell), 2 if nothing
could be begun, 3 if a peer failed in a workload, 130 or 143 if the run was interrupted.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tests.bench.peers import log_growth, place, session, writing
from tests.bench.peers.bars import bars
from tests.bench.peers.findings import Finding
from tests.bench.peers.peer_goqueue import GoQueueHttp, GoQueueKafka
from tests.bench.peers.peer_kafka import ApacheKafka
from tests.bench.peers.peer_nats import NatsJetStream
from tests.bench.peers.peer_null import NullBroker, StoringNullBroker
from tests.bench.peers.peer_rabbitmq import RabbitQuorum, RabbitStream
from tests.bench.peers.peer_redis import RedisStreams
from tests.bench.peers.report import one_line
from tests.bench.peers.scale import SCALES, Scale
from tests.bench.peers.servers import Peer
from tests.bench.peers.turns import Run
from tests.bench.peers.workloads import plan

MISSED, REFUSED, FAILED, INTERRUPTED, ENDED = 1, 2, 3, 130, 143
PEERS: dict[str, Peer] = {
    "goqueue": GoQueueKafka(),
    "goqueue-http": GoQueueHttp(),
    "kafka": ApacheKafka(),
    "nats": NatsJetStream(),
    "redis": RedisStreams(),
    "rabbitmq-quorum": RabbitQuorum(),
    "rabbitmq-stream": RabbitStream(),
    "null": NullBroker(),
    "null-storing": StoringNullBroker(),
}


def main() -> int:
    """Run what was asked for and write the report."""
    # Whoever stops the run stops the servers too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))
    options = _options()
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        return _run(options, Path(options.out), console)
    except session.Refused as reason:
        console.print(str(reason), markup=False)
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(options: argparse.Namespace, out: Path, console: Console) -> int:
    wanted = [PEERS[name] for name in options.peers]
    skipped = place.skipped(wanted)
    for name, reason in skipped.items():
        console.print(f"left out: {name} {reason}", markup=False)
    there = writing.read(out) if options.resume else None
    scale = session.scale_with_logs(_scale(options), there)
    taking_part = [peer for peer in wanted if peer.name not in skipped]
    workloads, only = plan(scale), options.only or []
    found = place.finding(taking_part, scale, skipped)
    if options.resume:
        found = session.resumed(there, found)
    found = replace(found, planned=session.planned(workloads, only, there))
    names = session.to_do(found, only, retry=options.retry)
    if "log" in names and (missing := log_growth.room_missing(scale, options.directory)):
        raise session.Refused(missing)
    if names:
        found.commands.append(_command(sys.argv[1:]))
        if not options.resume:
            writing.set_aside(out)
    writing.write(found, out)
    try:
        with (
            Progress(
                *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
                console=console,
            ) as progress,
            Run(taking_part, scale, options.directory, lambda step: progress.update(task, description=step)) as run,
        ):
            task = progress.add_task("", total=len(names))

            def write(so_far: Finding) -> None:
                writing.write(so_far, out)
                progress.advance(task)

            session.go_on(run, workloads, names, found, code=place.code, write=write)
    finally:
        _say_what_is_there(found, out, console)
    print((out / writing.REPORT).read_text())
    if options.publish:
        _publish(found, console)
    return _code(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    for name in SCALES:
        size.add_argument(f"--{name}", dest="scale", action="store_const", const=name)
    parser.set_defaults(scale="quick")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", help="100B, latency-5000, durable, queue, log, ...")
    parser.add_argument("--rounds", type=int, help="of every workload, instead of the scale's own numbers")
    parser.add_argument("--log-gib", type=float, nargs="+", help="sizes of the logs for the workload log, in GiB")
    parser.add_argument("--directory", help="where the brokers' data goes")
    parser.add_argument("--out", default="bench-results", help="where the report goes")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out")
    parser.add_argument("--retry", action="store_true", help="with --resume: workloads in which a peer failed, again")
    parser.add_argument("--publish", action="store_true", help="put the report into docs/benchmarks.md")
    return parser.parse_args()


def _scale(options: argparse.Namespace) -> Scale:
    scale = SCALES[options.scale]
    if options.rounds is not None:
        rounds = max(1, options.rounds)
        scale = replace(scale, rounds=rounds, throughput_rounds=rounds, close_rounds=0)
    return scale if options.log_gib is None else replace(scale, log_gib=tuple(sorted(options.log_gib)))


def _command(arguments: list[str]) -> str:
    """What was typed, for the report; folders of this machine are of no use to its readers."""
    pairs = zip(["", *arguments], arguments, strict=False)
    folders = ("--out", "--directory")
    kept = [one for before, one in pairs if before not in folders and not one.startswith(folders)]
    return shlex.join(["python", "-m", "tests.bench.peers", *kept])


def _say_what_is_there(found: Finding, out: Path, console: Console) -> None:
    for name, failure in found.failures():
        console.print(f"failed: {failure.peer} in {name}: {one_line(failure.reason)}", markup=False)
    if left := found.not_run():
        there = f"{len(found.measured)} of {len(found.planned)} workloads are in {out}"
        console.print(f"{there}, without {', '.join(left)}; the same command with --resume goes on", markup=False)


def _publish(found: Finding, console: Console) -> None:
    if left := found.not_run():
        console.print(f"not published: {', '.join(left)} not run yet", markup=False)
    else:
        writing.publish(found)


def _code(found: Finding) -> int:
    if found.failures():
        return FAILED
    missed = any(bar.met is False for bar in bars(found))
    return MISSED if missed and found.scale["name"] != "smoke" else 0


if __name__ == "__main__":
    sys.exit(main())
