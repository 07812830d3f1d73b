"""A small HTTP caller for tests: plain JSON, and no error goes unnoticed unless asked for."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str]


class Http:
    """Calls one broker. A status of 400 or above fails the test, unless `refused` is called instead."""

    def __init__(self, address: str) -> None:
        self.base = f"http://{address}"

    def ask(self, method: str, path: str, body: object = None, *, headers: dict[str, str] | None = None) -> Answer:
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=90) as response:
                return _answer(response.status, response.read(), dict(response.headers))
        except urllib.error.HTTPError as problem:
            with problem:
                return _answer(problem.code, problem.read(), dict(problem.headers))

    def get(self, path: str) -> Any:
        return self._succeeded(self.ask("GET", path))

    def post(self, path: str, body: object = None) -> Any:
        return self._succeeded(self.ask("POST", path, {} if body is None else body))

    def put(self, path: str) -> Any:
        return self._succeeded(self.ask("PUT", path))

    def patch(self, path: str, body: object) -> Any:
        return self._succeeded(self.ask("PATCH", path, body))

    def delete(self, path: str, body: object = None) -> Any:
        return self._succeeded(self.ask("DELETE", path, body))

    def refused(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """The status and error of a request that must not succeed."""
        answer = self.ask(method, path, body)
        assert answer.status >= 400, answer
        assert answer.body["status"] == answer.status
        return answer.status, answer.body["error"]

    def publish(self, topic: str, *values: object, **fields: object) -> list[dict[str, Any]]:
        """Publish values and check every single result."""
        reply = self.post(f"/topics/{topic}/messages", {"messages": [{"value": value} for value in values], **fields})
        assert all("offset" in result and "error" not in result for result in reply["results"]), reply
        assert reply["count"] == len(values)
        return reply["results"]

    def _succeeded(self, answer: Answer) -> Any:
        assert answer.status < 300, answer
        return answer.body


def _answer(status: int, content: bytes, headers: dict[str, str]) -> Answer:
    is_json = headers.get("Content-Type", "").startswith("application/json")
    return Answer(status, json.loads(content) if is_json else content, headers)
