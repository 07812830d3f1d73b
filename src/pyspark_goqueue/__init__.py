"""Spark looks for a module of this name: it makes `format("goqueue")` work without registration."""

from goqueue.pipeline.data_source import GoQueueSource as DefaultSource

__all__ = ["DefaultSource"]
