"""ApiVersions: which APIs we answer, and in which versions.

Versions 0-4. A version above ours is answered by the dispatcher, in version 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from goqueue.servers.kafka import registry
from goqueue.servers.kafka.api import INVALID_REQUEST, Api, Context, Message, Reply

API = Api(key=18, name="ApiVersions", versions=(0, 4))

# Clients that find it finalised leave partitions to the server and get an epoch per transaction (KIP-890).
_TRANSACTION_VERSION = 2
_FEATURES: Mapping[str, object] = MappingProxyType(
    {
        "supported_features": [{"name": "transaction.version", "min_version": 0, "max_version": _TRANSACTION_VERSION}],
        "finalized_features_epoch": 0,
        "finalized_features": [
            {
                "name": "transaction.version",
                "min_version_level": _TRANSACTION_VERSION,
                "max_version_level": _TRANSACTION_VERSION,
            }
        ],
    }
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: Context, request: Message) -> Reply:
    """List every handler there is."""
    if context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return {"error_code": INVALID_REQUEST}
    return {"api_keys": [_row(module.API) for module in registry.MODULES], **_FEATURES}


def _row(api: Api) -> dict[str, int]:
    low, high = api.versions
    first = low if api.advertised_from is None else api.advertised_from
    return {"api_key": api.key, "min_version": first, "max_version": high}
