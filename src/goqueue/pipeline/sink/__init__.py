"""The Spark sink: rows to batches, staged by tasks and published by the driver's commit.

Exactly once by prepared transactions of the broker.
Lake sinks of declared pipelines are not here.
Begin with `writers.py`.
"""
