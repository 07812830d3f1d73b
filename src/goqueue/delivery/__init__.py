"""The queue on the log: receipts, visibility, retries, dead letters, priority lanes.

`state/` is the machine without I/O and the records that it writes. The way out of messages is `receiving.py`, then
`lanes/` (which is next), `leases/` (who has it) and `reading/`; the way back in is `settlement/` and `dead_letters/`.
Begin with `service.py`, then `state/machine.py`.
"""
