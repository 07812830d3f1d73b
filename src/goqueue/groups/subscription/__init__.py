"""Subscriptions: which topics a member wants, by name or by pattern, and assignors over their partitions.

Pure functions and values, shared by all group protocols. Nothing here keeps the state of a group.
Begin with `subscriptions.py`; `assignors.py` stands alone.
"""
