"""One partition on disk: segments, indexes, recovery, and what travels with the log."""
