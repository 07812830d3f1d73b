"""Compatibility: can a reader with one schema read what was written with another?

One file per format; each lists its rules at the top. `levels.py` says who must be able to read whom.
Begin with `levels.py`, then `compare.py`.
"""
