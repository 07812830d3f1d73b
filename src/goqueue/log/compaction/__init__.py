"""Compaction: of every key only the newest record stays.

A round picks the segments, a pass reads them twice and writes the outcome beside them, a swap puts it in their place.
Retention, which removes whole segments by age and size, is not here: see `log/retention.py`.
Begin with `compaction_round.py`, then `compaction_pass.py`.
"""
