"""Settlement: what becomes of a message when its receipt returns.

Ack, nack, reject, extend and release, alone or as promises of a transaction.
Leases are made in `delivery/leases`; dead letters leave through `delivery/dead_letters`.
Begin with `settler.py`, then `outcomes.py`.
"""
