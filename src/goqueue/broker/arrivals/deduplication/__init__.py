"""Deduplication ids: a message sent twice to a partition within its topic's window is stored once.

A window belongs to a partition. The id chooses the partition of a record without a key, so that a repeat meets the
first one there. The same id under two keys may go to two partitions, and is stored in both.

The id is a header of the record itself, so it is written with the message and lost with it: no crash can leave one
without the other. What is kept in memory is only an index of the last window, read from the log when the node starts
and, on a follower, as the log grows. Records of transactions are left alone: one that is aborted must not keep its next
attempt out. Those without sequences are the broker's own copies: their ids name a sequence of a producer, which no
other transaction has.

Begin with `step.py`, which every batch passes, then `windows.py`.
"""
