"""Dead letters: messages that failed for good, their move to `{topic}.dlq`, and their way back.

Each move is announced durably before it is made, so that a crash repeats it under the same sequence.
When a message counts as failed is decided in `delivery/settlement`.
Begin with `dead_letter_moves.py`, then `redrive.py`.
"""
