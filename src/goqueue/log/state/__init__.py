"""What one open log knows, and what travels with it: producers, leader epochs, the checkpoint.

The values and their files. Operations on them (append, remove, recover) are in `log/` and its other rooms.
Nothing here reads segments.
Begin with `log_state.py`.
"""
