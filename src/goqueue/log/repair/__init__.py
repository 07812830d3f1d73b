"""Repair of a log that runs: a damaged segment is written anew, with frames of another replica in its holes.

For logs that were never compacted, whose replicas are the same byte by byte. Repair by hand, with the broker stopped
and without another replica, is in `log/inspection`.
Begin with `segment_repair.py`.
"""
