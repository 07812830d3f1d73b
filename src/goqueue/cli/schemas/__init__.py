"""Schemas on the command line: the registry's commands, and values that are encoded and decoded by schema.

What schemas mean is `goqueue.formats`' affair. Begin with `schema.py`.
"""
