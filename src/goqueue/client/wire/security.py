"""Kafka's security options: which of them this client can honour today.

Nothing but plain text is spoken yet, so everything that asks for more is refused by name:
to connect without the protection that was asked for would be worse than not to connect.
"""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.client.wire.errors import SecurityUnsupported

_PREFIXES = ("sasl.", "ssl.")


def check_security(options: Mapping[str, str]) -> None:
    """Refuse options such as `security.protocol=SASL_SSL`; names are without the prefix `kafka.`."""
    protocol = options.get("security.protocol", "PLAINTEXT")
    if protocol.upper() != "PLAINTEXT":
        raise SecurityUnsupported(
            f"security.protocol={protocol} is not supported yet: this client speaks PLAINTEXT only"
        )
    for name in options:
        if name.startswith(_PREFIXES):
            raise SecurityUnsupported(f"{name} is not supported yet: this client speaks PLAINTEXT only")
