"""Priority lanes: which lane of a queue is served next, and its next untouched messages; stateless reads by lane.

The lane indexes themselves belong to the log.
Nothing here leases or settles.
Begin with `lane_scheduler.py`; for reads that keep nothing between two calls, with `lane_reads.py`.
"""
