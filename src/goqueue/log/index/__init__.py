"""Indexes of a segment: from an offset, a time, a lane or an aborted transaction to a place in its file.

Every index is derived: it can be rebuilt from the `.log` file beside it. Lookups over all segments of a log are here
too.
Nothing here decides what may be read or removed.
Begin with `sparse_index.py`, the form that offset and time index share.
"""
