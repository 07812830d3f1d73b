"""Leases: from a receive to messages with receipts.

`taker.py` is the way of a receive: look at the lanes, plan, read, lease. What is outstanding, and in which way, is in
`outstanding.py`.
What becomes of a message when its receipt returns is in `delivery/settlement`.
Begin with `taker.py`.
"""
