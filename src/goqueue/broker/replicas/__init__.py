"""Replicas: the partitions that this node has, their logs and their roles.

A partition is a family of logs with one role and one term. Files are opened in threads, roles come from the metadata,
and a writer belongs to one term. What a batch must pass before it is written lives in `arrivals`, not here. Begin
with `partitions.py`, then `partition.py` and `roles.py`.
"""
