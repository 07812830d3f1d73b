"""Migration: data directories of earlier layouts are brought to the present one, once, before anything is served.

Begin with `driver.py`, which says in which order things happen and why a crash at any moment does no harm. Each former
internal topic has a step of its own: `queues.py` takes over `__delivery_state`, `delays.py` takes over `__delayed`.
"""
