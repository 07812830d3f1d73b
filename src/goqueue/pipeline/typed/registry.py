"""The schema registry as tasks see it: blocking, and asked once for each schema."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlsplit

from goqueue.client.wire.security import WireSecurity, security_of
from goqueue.client.wire.tls import tls_context
from goqueue.formats.source import Import, SchemaType, Source
from goqueue.pipeline.errors import BadOption

_SECONDS_MAX = 30
_NOT_FOUND = 404
# From this status on the registry is at fault, and not what it was asked.
_NOT_NOW = 500


class NoSuchSchema(BadOption):
    """The registry answers, and does not have what it was asked for: who asks again is told the same."""

    def __init__(self, reason: str) -> None:
        super().__init__("schema", reason)


class Registry:
    """Schemas by id, with all that they reference.

    Who asks is the user of the Kafka options, and TLS is checked as they say: a principal is the same at every door.
    """

    def __init__(self, url: str, kafka: Mapping[str, str] = MappingProxyType({})) -> None:
        self.url = url.rstrip("/")
        self._sources: dict[int, Source] = {}
        security = security_of(kafka)
        self._headers = {} if security is None else _headers(self.url, security)
        is_own = self.url.startswith("https://") and security is not None and security.uses_tls
        self._tls = tls_context(security.tls) if is_own and security is not None else None

    def pin(self, wanted: str, topic: str) -> int:
        """The id that an option means: `registry`, a subject, subject:version, subject:latest, or an id."""
        if wanted.isdigit():
            return int(wanted)
        subject, _, version = wanted.rpartition(":")
        if wanted.lower() == "registry":
            for subject in (f"{topic}-value", topic):
                found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest", missing=None)
                if found is not None:
                    return int(found["id"])
            raise BadOption("schema", f"the registry has neither a subject {topic}-value nor {topic}")
        if not subject or not (version.isdigit() or version == "latest"):
            subject, version = wanted, "latest"
        return int(self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")["id"])

    def versions(self, subject: str) -> list[int] | None:
        """The versions of a subject; None if there is no such subject."""
        found: list[int] | None = self._get(f"/subjects/{quote(subject, safe='')}/versions", missing=None)
        return found

    def subjects(self) -> list[str]:
        """The names of all subjects that may be seen."""
        found: list[str] = self._get("/subjects")
        return found

    def source(self, schema_id: int) -> Source:
        """A schema with the text of everything that it references."""
        known = self._sources.get(schema_id)
        if known is None:
            found = self._get(f"/schemas/ids/{schema_id}?format=serialized")
            imports: dict[str, str] = {}
            self._bring(found.get("references", ()), imports)
            texts = tuple(Import(name, text) for name, text in imports.items())
            known = self._sources[schema_id] = Source(SchemaType(found["schemaType"]), found["schema"], texts)
        return known

    def _bring(self, references: Any, imports: dict[str, str]) -> None:
        for one in references:
            if one["name"] not in imports:
                path = f"/subjects/{quote(one['subject'], safe='')}/versions/{one['version']}"
                found = self._get(f"{path}?deleted=true&format=serialized")
                self._bring(found.get("references", ()), imports)
                imports[one["name"]] = found["schema"]

    def register(self, subject: str, kind: SchemaType, text: str) -> int:
        """The id of a schema of a subject, registered now if it is new."""
        return int(
            self._get(f"/subjects/{quote(subject, safe='')}/versions", body={"schemaType": kind.value, "schema": text})[
                "id"
            ]
        )

    def _get(self, path: str, *, body: Any = None, **default: Any) -> Any:
        headers = {"Content-Type": "application/json", **self._headers}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310 - the user's url
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS_MAX, context=self._tls) as reply:  # noqa: S310
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                if error.code == _NOT_FOUND and "missing" in default:
                    return default["missing"]
                told = _told(error)
            if error.code >= _NOT_NOW:
                raise BadOption("schemaRegistryUrl", f"{self.url} answers {error.code}: {told}") from None
            reason = f"the registry at {self.url} answers {error.code}: {told}"
            raise (NoSuchSchema(reason) if error.code == _NOT_FOUND else BadOption("schema", reason)) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise BadOption("schemaRegistryUrl", f"{self.url} does not answer as a registry: {error}") from None


def _told(error: urllib.error.HTTPError) -> str:
    """What the registry says is wrong; a proxy in front of it says it in other words."""
    try:
        return str(json.loads(error.read())["message"])
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return error.reason


def _headers(url: str, security: WireSecurity) -> dict[str, str]:
    if not security.mechanism:
        return {}
    place = urlsplit(url)
    if place.scheme != "https" and place.hostname not in {"127.0.0.1", "::1", "localhost"}:
        raise BadOption("schemaRegistryUrl", f"{url} is not encrypted: a password or token is sent over https only")
    if security.mechanism == "OAUTHBEARER":
        token = security.token or Path(security.token_file).read_text(encoding="utf-8").strip()
        return {"Authorization": f"Bearer {token}"}
    shown = base64.b64encode(f"{security.username}:{security.password}".encode()).decode()
    return {"Authorization": f"Basic {shown}"}
