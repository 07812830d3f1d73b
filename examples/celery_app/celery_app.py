"""A Celery application on GoQueue: the tasks are Celery's, the broker holds what is not due yet.

    pip install 'goqueue[celery]'
    cd examples/celery_app
    celery -A celery_app worker --concurrency 2
    python celery_app.py

A countdown of a year waits in the broker and not in a worker's memory, so a restart of the workers loses nothing.
`goqueue delayed list invoices` shows what waits, `goqueue dlq list invoices` what was rejected.
"""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery
from celery.exceptions import Reject

import goqueue.celery  # noqa: F401 - makes the name goqueue:// known

app = Celery("billing", broker=os.environ.get("GOQUEUE_CELERY", "goqueue://127.0.0.1:8080"))
app.conf.task_default_queue = "invoices"
app.conf.broker_transport_options = {"visibility_timeout": 60}
app.conf.broker_connection_retry_on_startup = True

FOLDER = Path(os.environ.get("INVOICES", "invoices"))


@app.task(name="billing.invoice", acks_late=True, autoretry_for=(OSError,), retry_backoff=True, max_retries=5)
def invoice(order: str, amount: int) -> str:
    """Write an invoice. Acknowledged after it is written, so a worker that is killed leaves it to another one."""
    if amount <= 0:
        # Redelivery cannot mend it: it becomes a dead letter, with the message as it was sent.
        raise Reject(f"{order} has no amount", requeue=False)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{order}.txt"
    path.write_text(f"{order}: {amount}\n")
    return str(path)


@app.task(name="billing.remind")
def remind(order: str) -> None:
    """Remind of an unpaid invoice."""
    (FOLDER / f"{order}.reminder").write_text("please pay\n")


def main() -> None:
    """Write two invoices, one urgent, and remind of the first in thirty days."""
    invoice.delay("order-1", 25)
    invoice.apply_async(("order-2", 99), priority=9)
    remind.apply_async(("order-1",), countdown=30 * 24 * 3600)
    invoice.delay("order-3", 0)


if __name__ == "__main__":
    main()
