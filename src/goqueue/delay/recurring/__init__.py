"""Recurring messages: schedules, when they run, and the partition that each one lives in.

A run is an ordinary delayed message; nothing here has timers of its own. Begin with `schedules.py`, then
`occurrences.py`.
"""
