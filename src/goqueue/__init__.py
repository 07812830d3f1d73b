"""GoQueue: one partitioned, replicated log, read as a stream or as a queue."""
