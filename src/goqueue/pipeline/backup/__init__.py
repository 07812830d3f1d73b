"""Backups on Spark; the format, the storage and the work itself are in `goqueue.backup`."""
