"""Backups of a broker's logs: their format, where they lie, and how they are taken, verified and restored.

The package imports neither Spark nor the broker. The command line takes backups with it alone (`goqueue backup`), and
the jobs on Spark (`goqueue jobs backup`) stand on the same functions: what one tool wrote, the other restores.
Begin with `work.py` (the three jobs), then `manifest.py` (the format) and `store.py` (where it lies).
"""
