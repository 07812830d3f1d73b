"""The process around a node: from a command line to a serving broker and back.

Signals, limits, banner, ready file, log output and the service manager live here; what a node consists of does not.
Begin with `lifecycle.py`.
"""
