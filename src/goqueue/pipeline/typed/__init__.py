"""Typed columns: values of a topic as a struct of the columns that their schema has.

The columns are those of one version, pinned when a query starts. What was written with another version is read
through the pinned one, as the format's rules for evolution say. Begin with `pinned.py`, then `values.py`.
"""
