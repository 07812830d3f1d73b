"""Schemas: the registry of subjects, versions and ids, kept in `__schemas`, and the check of messages against it.

Whatever runs a user's schema runs in the schema worker (`workers.py`), never in the broker's own process.
What schemas mean is `goqueue.formats`' affair; the state machine here knows fingerprints and numbers only.
Begin with `values.py`, then `machine.py` and `service.py`.
"""
