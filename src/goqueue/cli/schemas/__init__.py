"""Commands about schemas, and how `produce` and `consume` encode and decode with them.

They talk to the registry of a running broker through the client. Begin with `schema`.
"""
