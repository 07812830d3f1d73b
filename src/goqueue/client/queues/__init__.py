"""Queues: messages with receipts, settled one by one, and handlers that run for each of them.

Nothing here knows offsets to commit. Begin with `queue_consumer`, then `settling` and `runner`.
"""
