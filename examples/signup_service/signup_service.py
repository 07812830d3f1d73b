"""A sign-up service: the API answers at once, and a worker sends the mail.

    pip install fastapi uvicorn
    cd examples/signup_service
    uvicorn signup_service:api --port 8000
    goqueue worker signup_service:app
    curl localhost:8000/signups --json '{"name": "Ada", "email": "ada@example.org"}'

A mail server that does not answer costs a retry, not a sign-up. An address that can never work is a
dead letter: `GET /signups/failed` lists those, and `goqueue dlq redrive signups` sends them back once they are mended.
"""

from __future__ import annotations

import os
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from goqueue.worker import Reject, Retry, Worker, current

app = Worker(os.environ.get("GOQUEUE_URL", "http://127.0.0.1:8080"), name="signups")
api = FastAPI(title="Sign-ups")


class SignUp(BaseModel):
    """What a visitor fills in."""

    name: str
    email: str


class Mail:
    """Stands for your mail server: `down` and `sent` are there for the tests."""

    down = False
    sent: list[str] = []  # noqa: RUF012 - one mailbox for the whole process


@app.task(queue="signups", retries=3, backoff="1s..1m", timeout="30s")
def send_welcome(sign_up: SignUp) -> None:
    """Send one mail. It may run twice, so the mail server gets the task's id as the mail's id."""
    if "@" not in sign_up.email:
        raise Reject(f"{sign_up.email!r} is not a mail address")
    if Mail.down:
        raise Retry("the mail server does not answer")
    Mail.sent.append(f"{sign_up.email}: welcome, {sign_up.name} (attempt {current().attempt})")


@api.post("/signups", status_code=202)
def sign_up(given: SignUp) -> dict[str, str]:
    """Store the sign-up and answer. The same address within the hour is stored once."""
    sent = send_welcome.options(idempotency_key=given.email.lower()).send(given)
    return {"id": sent.id, "status": "repeated" if sent.duplicate else "accepted"}


@api.get("/signups/failed")
def failed() -> list[dict[str, Any]]:
    """Sign-ups that no worker could finish, each with its reason."""
    return [{"reason": one.reason, "error": one.error} for one in app.client().dead_letters("signups").letters]
