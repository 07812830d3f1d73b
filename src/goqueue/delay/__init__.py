"""Messages that are held until they are due, and recurring messages.

What lives where: `holding` stores delayed messages in the delay log of their partition, `due` knows which are due and
when, `firing` writes them to their topic exactly once, `recurring` makes the runs of schedules. Begin with
`service.py`, then `holding/store.py` and `firing/driver.py`.
"""
