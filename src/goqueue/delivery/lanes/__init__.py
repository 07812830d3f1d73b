"""Priority lanes of a queue: which lane is served next, and its next untouched messages.

The lane indexes themselves belong to the log.
Nothing here leases or settles.
Begin with `lane_scheduler.py`.
"""
