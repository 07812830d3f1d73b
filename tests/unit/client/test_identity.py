"""A client is known by its program and its host."""

from __future__ import annotations

import pytest

from goqueue.client import identity


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("/srv/billing.py", "billing"),
        ("/usr/lib/python3/site-packages/goqueue/__main__.py", "goqueue"),
        ("/usr/bin/celery", "celery"),
        ("-c", "python"),
        ("-", "python"),
        ("", "python"),
    ],
)
def test_a_client_is_named_after_its_program_and_its_host(monkeypatch, program, name):
    monkeypatch.delenv("GOQUEUE_CLIENT_ID", raising=False)
    monkeypatch.setattr("sys.argv", [program])
    assert identity.default_client_id.__wrapped__() == f"{name}@{identity.host()}"
