"""The list of all handlers: what is here is advertised, and what is advertised works."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.servers.kafka.api import Handler

MODULES: tuple[Handler, ...] = cast("tuple[Handler, ...]", ())

HANDLERS: Mapping[int, Handler] = MappingProxyType({module.API.key: module for module in MODULES})
