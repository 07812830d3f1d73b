"""Exporters: spans for other systems. Each has a thread and a bounded queue of its own.

`feed` chooses whose spans are exported, `lanes` queues them, and each other file is one exporter: a name, `export` that
may block, and `close`. Nothing here may slow a producer or a consumer: what does not fit is dropped and counted.
"""
