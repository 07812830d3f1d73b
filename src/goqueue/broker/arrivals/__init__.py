"""The way in: a batch as a value (`Arrival`) that passes an ordered list of steps and is written.

Limits, the disk guard, deduplication and lanes are steps here; features bring their own. How a log stores a batch
lives in `log`, who may lead in `replicas`. Begin with `arrival.py`, then `publish.py` (closed batches) and
`record_publishing.py` (single records).
"""
