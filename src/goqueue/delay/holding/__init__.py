"""Holding: delayed messages in the delay log of their partition, and those of open transactions.

One store per partition that this node leads, for one term. When messages are due is known in `due`. Begin with
`store.py`; `headers.py` takes delayed records out of the batches of Kafka clients.
"""
