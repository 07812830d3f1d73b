"""Records out: gathered into batches per partition, sent in order, retried, accounted for; transactions.

Nothing here reads messages. Begin with `producer`, then `accumulator`, `outgoing` and `sending`.
"""
