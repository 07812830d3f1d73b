"""Commands that publish, read, settle, delay and redrive messages.

They talk to a running broker through the client alone. Begin with `produce` and `consume`.
"""
