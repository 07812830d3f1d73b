"""The consumer group protocol (KIP-848): one heartbeat does everything, and the broker assigns.

`protocol.py` decides, `group.py` holds what is durable, `targets.py` and `reconciliation.py` say who is to own
what, and in which steps.
Assignors and subscriptions are shared with other protocols and live in `groups/subscription`.
Begin with `protocol.py`.
"""
