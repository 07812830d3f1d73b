"""The way out: stored batches and records, up to what a reader may see.

Bounds, waiting, memory of answers and what cannot be read live here. There are no filters that skip records: what may
not be seen yet is beyond a bound. Begin with `fetch.py` (batches), then `record_reads.py` (records) and `queries.py`.
"""
