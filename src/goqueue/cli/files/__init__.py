"""Commands that read and write files: the logs of a stopped broker, and backups.

Begin with `log`; `log_rows` makes what it shows.
"""
