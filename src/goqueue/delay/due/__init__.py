"""Due times: the index on the disk by time and partition, and the timers of what is due soon.

Nothing here writes to a topic, and memory does not grow with what is held. Begin with `index.py`, then `indexing.py`
(how the index follows the delay logs), `unindexed.py` (what it lacks), `index_in_use.py` (opening, closing and making
it anew) and `near.py` (what is in memory).
"""
