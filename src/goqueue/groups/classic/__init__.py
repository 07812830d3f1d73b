"""The classic group protocol: join, sync, heartbeat, and eager groups over HTTP.

`protocol.py` decides, `group.py` holds what is true, `generations.py` forms and ends generations.
Offsets and queue groups are in rooms of their own.
Begin with `protocol.py`.
"""
