"""The description and the server cannot differ: generated requests, every answer checked against the document."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.e2e.http import Http

from goqueue.servers.http.app import ROUTES

# A stream ends only when its reader does; the two pages that describe the rest, and the way to them, are not described.
OPERATIONS = [
    (route.method, route.path, route.is_registry)
    for route in ROUTES
    if not route.path.endswith("/stream") and route.path not in {"/", "/openapi.json", "/docs"}
]


@pytest.fixture(scope="module")
def api(broker):
    http = Http(broker.http)
    # Something to find, so that not every request ends at "not found".
    http.post("/topics", {"name": "orders", "num_partitions": 2})
    http.publish("orders", *range(5))
    http.post("/groups/readers/offsets", {"offsets": {"orders": {"0": 1}}})
    taken = http.post("/topics/orders/receive", {"group": "workers", "limit": 2})["messages"]
    http.post("/messages/reject", {"receipt_handle": taken[0]["receipt_handle"], "reason": "bad"})
    return schemathesis.openapi.from_url(f"http://{broker.http}/openapi.json")


@pytest.mark.parametrize(
    ("method", "path", "is_registry"), OPERATIONS, ids=[f"{method} {path}" for method, path, _ in OPERATIONS]
)
def test_every_answer_is_one_that_the_description_promises(api, method, path, is_registry):
    @settings(
        # Routes of the registry are many and alike.
        max_examples=5 if is_registry else 20,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=api[path][method].as_strategy())
    def ask(case):
        # A schema cannot say everything that a request must be ("exactly one target"), so a request
        # of the right shape may still be refused: with the 400 that the description promises.
        case.call_and_validate(timeout=70, excluded_checks=[positive_data_acceptance])

    ask()
