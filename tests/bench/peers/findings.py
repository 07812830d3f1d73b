"""What a run has found so far, as it lies in peers.json: workload by workload, each measured whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Sample:
    """What one peer did in one round."""

    workload: str
    peer: str
    round: int
    figures: dict[str, float]


@dataclass(frozen=True, slots=True)
class Failure:
    """A peer that broke down in a workload, or whose messages did not add up: it has no figures there."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Measured:
    """One workload with all its peers and rounds."""

    name: str
    # When it began, in UTC; how long it took; how busy the machine was before.
    at: str
    seconds: float
    load: float
    samples: list[Sample]
    failures: list[Failure]


@dataclass(frozen=True, slots=True)
class Finding:
    """Everything that the report is written from."""

    machine: dict[str, str]
    # The commit, for people; the content of what was measured and of what measured it, to compare.
    commit: str
    code: str
    clients: dict[str, str]
    scale: dict[str, Any]
    peers: list[dict[str, str]]
    skipped: dict[str, str]
    commands: list[str] = field(default_factory=list)
    # All workloads that the run is to have, in their order.
    planned: list[str] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote."""
        row = json.loads(text)
        row.pop("bars", None)
        row["measured"] = [
            Measured(
                **one
                | {
                    "samples": [Sample(**sample) for sample in one["samples"]],
                    "failures": [Failure(**failure) for failure in one["failures"]],
                }
            )
            for one in row["measured"]
        ]
        return cls(**row)

    def to_json(self, bars: list[dict[str, Any]]) -> str:
        """For other programs, and for `--resume`. The bars are only told: they follow from the rest."""
        return json.dumps(asdict(self) | {"bars": bars}, indent=1)

    def with_measured(self, one: Measured) -> None:
        """Take it in, in the place of what was measured of it before."""
        rest = [other for other in self.measured if other.name != one.name]
        self.measured[:] = sorted([*rest, one], key=lambda each: self.planned.index(each.name))

    def not_run(self) -> list[str]:
        """Planned, and not there yet."""
        there = {one.name for one in self.measured}
        return [name for name in self.planned if name not in there]

    def failures(self) -> list[tuple[str, Failure]]:
        """Who failed in which workload."""
        return [(one.name, failure) for one in self.measured for failure in one.failures]

    def samples(self) -> Iterator[Sample]:
        """Of all workloads, in their order."""
        return (sample for one in self.measured for sample in one.samples)

    def workloads(self) -> list[str]:
        """The headings of the tables, in their order."""
        return list(dict.fromkeys(one.workload for one in self.samples()))

    def median(self, workload: str, peer: str, figure: str) -> float | None:
        """Over the rounds; None if it was not measured."""
        values = self._rounds(workload, peer, figure).values()
        return median(values) if values else None

    def ratios(self, workload: str, ours: str, theirs: str, figure: str) -> list[float]:
        """Ours over theirs: each round is compared with itself."""
        return _ratios(self._rounds(workload, ours, figure), self._rounds(workload, theirs, figure))

    def growth(self, small: str, large: str, peer: str, figure: str) -> list[float]:
        """The large workload over the small one, for workloads that took turns with each other."""
        return _ratios(self._rounds(large, peer, figure), self._rounds(small, peer, figure))

    def _rounds(self, workload: str, peer: str, figure: str) -> dict[int, float]:
        return {
            one.round: one.figures[figure]
            for one in self.samples()
            if one.workload == workload and one.peer == peer and figure in one.figures
        }


def differences(there: Finding, here: Finding) -> list[str]:
    """Why figures of `here` must not stand beside those of `there`: each field with both values."""
    before, now = _circumstances(there), _circumstances(here)
    if not any(one.name == "log" for one in there.measured):
        # Logs of any size may still come in.
        now["scale: log_gib"] = before["scale: log_gib"]
    rows = [
        f"{name} was {before.get(name, 'not there')} and is {now.get(name, 'not there')}"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
    if there.code != here.code:
        rows.append(f"commit was {there.commit} and is {here.commit}, and src or tests/bench differ")
    return rows


def _circumstances(found: Finding) -> dict[str, Any]:
    # Through JSON and back, as what was read from a file has been.
    scale = json.loads(json.dumps(found.scale))
    return {
        **{f"scale: {name}": value for name, value in scale.items()},
        **{f"machine: {name}": value for name, value in found.machine.items()},
        **{f"version of {one['name']}": one["version"] for one in found.peers},
        **{f"version of the client {name}": value for name, value in found.clients.items()},
    }


def _ratios(above: dict[int, float], below: dict[int, float]) -> list[float]:
    return [value / below[number] for number, value in above.items() if below.get(number)]
