"""Segments: the files of a partition's log.

One segment is a `.log` file with its indexes beside it; the last one is active and takes appends. File names, open
handles and the reading of frames out of a file belong here.
Decisions about a whole log (retention, compaction, recovery) do not; they are in the rooms next door.
Begin with `segment.py`, then `segment_list.py`.
"""
