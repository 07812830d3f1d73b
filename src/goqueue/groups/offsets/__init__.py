"""Committed offsets: commit, fetch, delete, expire, transactions that will commit some, and lag.

Who is a member is decided elsewhere; this room is told.
Begin with `requests.py`, then `offset_table.py`.
"""
