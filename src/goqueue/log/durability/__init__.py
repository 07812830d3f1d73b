"""How far a log is on the disk: rounds of syncing, checkpoints, and what a failed sync leaves behind.

The log says what must be synced; who calls fdatasync, and when, is the node's flusher.
Nothing here opens a batch.
Begin with `sync_rounds.py`.
"""
