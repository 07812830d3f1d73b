"""Services that can be asked on any node of a cluster: they answer here, or ask the node that can.

Each has the methods of the local service that it stands in for, and is handed to front-ends in its place. What it asks
a peer is answered there by the local service, so that a question travels once: it is answered or refused. A refusal
that says "not here" is followed to the new leader, for a bounded time. One node alone uses none of this.
Begin with `homes` (who leads) and `asking` (how a peer is asked).
"""
