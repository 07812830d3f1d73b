"""Queues over one WebSocket: many requests at a time, as MessagePack frames.

The same operations as the JSON routes of queues, for clients that receive and settle many messages. What a
frame asks for is decided by the services alone. Begin with `frames`, then `session`.
"""
