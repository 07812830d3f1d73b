"""From what is wanted to what is left to do: a run that can be interrupted, and gone on with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tests.bench.peers.findings import Finding, differences
from tests.bench.peers.scale import Scale
from tests.bench.peers.turns import Run

Workloads = Mapping[str, Callable[[Run], None]]


class Refused(Exception):
    """The run cannot be made as it was asked for; the text says why."""


def resumed(there: Finding | None, here: Finding) -> Finding:
    """The run that lies there, to be gone on with here."""
    if there is None:
        raise Refused("there is no run to go on with: no peers.json in --out")
    if found := differences(there, here):
        raise Refused("the run in --out cannot be gone on with: " + "; ".join(found))
    scale = there.scale | ({"log_gib": here.scale["log_gib"]} if here.scale["log_gib"] else {})
    return replace(there, scale=scale)


def scale_with_logs(scale: Scale, there: Finding | None) -> Scale:
    """Logs that the run had before need not be asked for again."""
    if there is None or scale.log_gib:
        return scale
    return replace(scale, log_gib=tuple(there.scale.get("log_gib", ())))


def planned(workloads: Workloads, only: Iterable[str], there: Finding | None) -> list[str]:
    """What the run is to have in the end, in its order: all there is, or what was picked now and before."""
    chosen = set(only) or set(workloads)
    if unknown := sorted(chosen - set(workloads)):
        names = ", ".join(workloads)
        raise Refused(f"no workload {', '.join(unknown)} at this scale; there are: {names}")
    if there is not None:
        chosen |= set(there.planned)
    return [name for name in workloads if name in chosen]


def to_do(found: Finding, only: Iterable[str], *, retry: bool) -> list[str]:
    """What is planned and not there yet; with `retry`, also what somebody failed in."""
    chosen = set(only) or set(found.planned)
    failed = {name for name, _ in found.failures()} if retry else set()
    left = set(found.not_run()) | failed
    return [name for name in found.planned if name in left & chosen]


def go_on(
    run: Run,
    workloads: Workloads,
    names: Iterable[str],
    found: Finding,
    *,
    code: Callable[[], str],
    write: Callable[[Finding], None],
) -> None:
    """Measure these workloads, and write down each as soon as it is done."""
    for name in names:
        measured = run.measure(name, workloads[name])
        if code() != found.code:
            raise Refused(f"src or tests/bench changed during {name}: it is not kept, and the run ends here")
        found.with_measured(measured)
        write(found)
