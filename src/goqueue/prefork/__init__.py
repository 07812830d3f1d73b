"""Requests and leases for programs that fork: what the Celery transport and the Dramatiq broker share.

`goqueue.client` works with a thread and an event loop, of which a fork copies one half. Here requests are sent by the
thread that calls, and a fork starts without connections.
"""
