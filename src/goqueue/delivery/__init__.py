"""The queue on the log: receipts, visibility, retries, dead letters, priority lanes."""
