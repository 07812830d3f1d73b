"""Messages that must come once although much could bring them twice: delayed, recurring, deduplicated."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from tests.e2e.campaign.ledger import Body, Fate
from tests.e2e.campaign.load import CUT, Campaign, Load
from tests.e2e.http import Http

DELAYED, DEDUPLICATED, BEATS = "delayed", "dedup", "beats"
SCHEDULES = ("beat-a", "beat-b")


class DelayFeeder(Load):
    """Publishes for a time of its own choice, at most some seconds ahead."""

    def __init__(self, campaign: Campaign, due_ms: dict[str, int]) -> None:
        super().__init__(campaign, "delay-feeder")
        self._ledger = campaign.ledger("delayed")
        self._due_ms = due_ms

    def work(self) -> None:
        while not self.is_ended:
            bodies = [self._ledger.begin() for _ in range(self.chance.randrange(1, 6))]
            messages: dict[str, dict[str, Any]] = {}
            for body in bodies:
                at = datetime.fromtimestamp(self.due(body) / 1000, UTC).isoformat(timespec="milliseconds")
                messages[body.id] = {"key": body.key, "value": body.encode(self.chance).decode(), "deliverAt": at}
            self.publish(DELAYED, self._ledger, messages)
            self.pause(0.1)

    def headers(self, body: Body) -> dict[str, str]:
        """The same for records of a Kafka producer."""
        return {"goqueue-deliver-at": str(self.due(body))}

    def due(self, body: Body) -> int:
        due_ms = int(time.time() * 1000) + self.chance.randrange(100, 4000)
        self._due_ms[body.id] = due_ms
        return due_ms


class RepeatingFeeder(Load):
    """Sends every message with a deduplication id, again until it is answered, and then once more."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__(campaign, "repeating-feeder")
        self._ledger = campaign.ledger("dedup")

    def work(self) -> None:
        while not self.is_ended:
            body = self._ledger.begin()
            message = {
                "key": body.key,
                "value": body.encode(self.chance).decode(),
                "deduplication_id": body.id,
            }
            first = self._until_answered(message)
            if first is None:
                continue
            self._ledger.note(body.id, Fate.ACKNOWLEDGED)
            again = self._until_answered(message)
            if again is not None and not (again.get("duplicate") and place(again) == place(first)):
                self.campaign.problems.append(f"{body.id} is at {place(first)}, and its repeat was answered {again}")
            self.pause(0.03)

    def _until_answered(self, message: dict[str, Any]) -> dict[str, Any] | None:
        while not self.is_ended:
            try:
                answer = self.ask(f"/topics/{DEDUPLICATED}/messages", message)
            except CUT:
                self.pause(0.05)
                continue
            if answer.status == 200:
                result: dict[str, Any] = answer.body["results"][0]
                return result
            self.pause(0.05)
        return None


def place(result: dict[str, Any]) -> tuple[int, int]:
    """Where a message lies, by the answer to its sender."""
    return result["partition"], result["offset"]


def deduplication_header(body: Body) -> dict[str, str]:
    """For records of a Kafka producer."""
    return {"goqueue-dedup-id": body.id}


def begin_schedules(http: Http) -> dict[str, datetime]:
    """Messages of every second, none of them skipped; gives the time of each first run."""
    first: dict[str, datetime] = {}
    for name in SCHEDULES:
        schedule = {"name": name, "cron": "* * * * * *", "topic": BEATS, "key": name, "value": name, "missed": "all"}
        first[name] = datetime.fromisoformat(http.post("/schedules", schedule)["next_runs"][0])
    return first


def end_schedules(http: Http, first: dict[str, datetime]) -> tuple[dict[str, int], list[str]]:
    """Delete them; gives how many runs each had, and what is wrong with that."""
    runs: dict[str, int] = {}
    problems: list[str] = []
    for name, began in first.items():
        seen = http.get(f"/schedules/{name}")
        http.delete(f"/schedules/{name}")
        runs[name] = round((datetime.fromisoformat(seen["last_run"]) - began).total_seconds()) + 1
        if seen["runs"] != runs[name]:
            problems.append(f"{name} had {seen['runs']} runs in {runs[name]} seconds")
    return runs, problems
