"""Decoding: many Kafka batches to Arrow columns, whole arrays at a time.

No network, no Spark: bytes in, Arrow out.
Begin with `columns.py`, then `layout.py`.
"""
