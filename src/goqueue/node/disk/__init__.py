"""The node's disk: real files, group commit, free room, threads for blocking calls, housekeeping.

The only room of the broker that calls the operating system's file functions.
What is written, and where, is decided in `goqueue.log`.
Begin with `os_files.py` and `flusher.py`.
"""
