"""The Spark session: Java, settings, the daemon of Python workers and their memory.

Nothing here knows topics.
Begin with `session.py`.
"""
