"""Inspection of a stopped broker's files: `goqueue log verify` and `goqueue log repair`.

Everything is read and checked; only `repair.py` changes files, and only what it was told to.
A running broker uses nothing of this.
Begin with `verify.py`.
"""
