"""Firing: delayed messages on their way into their partition, exactly once.

A fire is stored before the batch is appended, with an internal producer id and a sequence, so that a repeat is
recognised. Which messages are due is decided in `due`. Begin with `driver.py`, then `deliveries.py`.
"""
