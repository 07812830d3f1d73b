"""Runs: queries, their sinks and progress, and the files by which other commands see them. Begin with `run.py`."""
