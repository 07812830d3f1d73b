"""Metadata in a key-value store that several nodes share: the engine of a cluster.

`kv.py` is the port, with etcd's semantics; `kv_store.py` is the engine above it, and the rest are its parts.
The embedded engine of a single node is `metadata/local.py`.
Begin with `kv.py`, then `kv_store.py`.
"""
