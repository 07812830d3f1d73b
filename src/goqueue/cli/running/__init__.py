"""Commands that run until they are stopped: the broker, workers, the demonstration, benchmarks.

Begin with `server`; `worker` has `reload` and `worker_table` beside it.
"""
