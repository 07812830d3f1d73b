"""Settings of a node: read from file, environment and command line, checked, and documented.

The fields themselves are in `goqueue.config`. Nothing here starts or opens anything.
Begin with `load_config.py`.
"""
