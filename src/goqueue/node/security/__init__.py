"""Security of a node, put together from `goqueue.security`, and what is changed about it while no broker runs.

Begin with `parts.py`. `administrators.py` writes the first administrator, or a new one, past the broker;
`offline_changes.py` lets the audit log know of it.
"""
