"""The series of the schema registry: what was checked, what was not valid, and the processes that check."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from goqueue.node.metrics.series import Series
from goqueue.schemas.feature import Schemas

_TOPIC = ("topic",)

CHECKED = Series("schema_records_checked", "Records that were checked against a schema.", _TOPIC)
INVALID = Series("schema_records_invalid", "Records that their schema does not allow.", _TOPIC)
QUARANTINED = Series("schema_records_quarantined", "Records that were moved to quarantine.", _TOPIC)
WORKER_FAILURES = Series("schema_worker_failures", "Processes replaced because a schema took too long or broke them.")
SCHEMAS = Series("schema_schemas", "Registered schemas.")
SUBJECTS = Series("schema_subjects", "Subjects with a version that is not deleted.")


def schema_metrics(schemas: Schemas) -> Iterator[Metric]:
    """Every series of the registry, with its rows."""
    checker, state = schemas.checker, schemas.view.own
    yield CHECKED.counter(((topic,), count) for topic, count in sorted(checker.checked.items()))
    yield INVALID.counter(((topic,), count) for topic, count in sorted(checker.invalid.items()))
    yield QUARANTINED.counter(((topic,), count) for topic, count in sorted(schemas.quarantine.moved.items()))
    yield WORKER_FAILURES.counter([((), schemas.worker.failures)])
    yield SCHEMAS.gauge([((), 0 if state is None else len(state.schemas))])
    yield SUBJECTS.gauge([((), 0 if state is None else len(state.subject_names()))])
