"""Values by schema: what `produce --schema` encodes and `consume` shows decoded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from goqueue.cli.session import USAGE, fail
from goqueue.client import Client, Message
from goqueue.errors import InvalidValue, SchemasNotInstalled
from goqueue.formats.envelope import ID_HEADER, VALUE_HEADER

if TYPE_CHECKING:
    from goqueue.client.schemas.serde import SchemaCodec

Encode = Callable[[bytes | str | None], Awaitable[bytes | str | None]]


async def encoder(client: Client, name: str) -> Encode:
    """What makes the bytes of a value out of its JSON, by a schema as `--schema` names it."""
    from goqueue.client.schemas.serde import SchemaCodec

    subject, _, version = name.rpartition(":")
    if name.isdigit():
        schema = await client.schemas.by_id(int(name))
    elif subject and version.isdigit():
        schema = await client.schemas.version(subject, int(version))
    else:
        schema = await client.schemas.version(name)
    codec = SchemaCodec(client.schemas)

    async def encode(value: bytes | str | None) -> bytes | str | None:
        if value is None:
            return None
        try:
            document = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise InvalidValue(f"with --schema a value is JSON: {problem}") from None
        return await codec.encode(schema, document)

    try:
        await codec.compiled(schema.id)
    except SchemasNotInstalled as problem:
        raise fail(problem, USAGE) from None
    return encode


class Decoder:
    """Shows values as JSON if they name a schema that the registry has; all others stay as they are."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_able = True
        self._codec: SchemaCodec | None = None

    async def __call__(self, message: Message) -> Message:
        """The message, its value decoded if it can be."""
        value = message.value
        if not value or not self._is_able:
            return message
        if value[0] != 0 and not any(name in {VALUE_HEADER, ID_HEADER} for name, _ in message.headers):
            return message
        try:
            document = await self._decode(value, message.headers)
        except SchemasNotInstalled:
            self._is_able = False
            return message
        return message if document is None else msgspec.structs.replace(message, value=document)

    async def _decode(self, value: bytes, headers: tuple[tuple[str, bytes | None], ...]) -> bytes | None:
        from goqueue.client.schemas.serde import SchemaCodec
        from goqueue.formats.readable import readable_json

        self._codec = self._codec or SchemaCodec(self._client.schemas)
        document = await self._codec.decode_known(value, headers)
        return None if document is None else readable_json(document).encode()
