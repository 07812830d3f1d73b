"""Schemas on the client's side: the registry's API, values to and from bytes, schemas derived from classes.

What schemas mean is `goqueue.formats`' affair; nothing here decides whether one is valid or compatible.
Begin with `registry.py`, then `serde.py`.
"""

from goqueue.client.schemas.registry import RegisteredSchema, SchemaRegistry
from goqueue.client.schemas.serde import SchemaCodec

__all__ = ["RegisteredSchema", "SchemaCodec", "SchemaRegistry"]
