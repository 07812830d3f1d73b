"""The schema registry as tasks see it: blocking, and asked once for each schema."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

from goqueue.formats.source import Import, SchemaType, Source
from goqueue.pipeline.errors import BadOption

_SECONDS_MAX = 30


class Registry:
    """Schemas by id, with all that they reference."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._sources: dict[int, Source] = {}

    def pin(self, wanted: str, topic: str) -> int:
        """The id that an option means: `registry`, a subject, subject:version, or an id."""
        if wanted.isdigit():
            return int(wanted)
        subject, _, version = wanted.rpartition(":")
        if wanted.lower() == "registry":
            for subject in (f"{topic}-value", topic):
                found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest", missing=None)
                if found is not None:
                    return int(found["id"])
            raise BadOption("schema", f"the registry has neither a subject {topic}-value nor {topic}")
        if not subject or not version.isdigit():
            subject, version = wanted, "latest"
        return int(self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")["id"])

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

    def _get(self, path: str, **default: Any) -> Any:
        try:
            with urllib.request.urlopen(self.url + path, timeout=_SECONDS_MAX) as reply:  # noqa: S310 - the user's url
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404 and "missing" in default:
                    return default["missing"]
                told = json.loads(error.read() or b"{}").get("message", error.reason)
            raise BadOption("schema", f"the registry at {self.url} answers {error.code}: {told}") from None
        except (OSError, ValueError) as error:
            raise BadOption("schemaRegistryUrl", f"{self.url} does not answer as a registry: {error}") from None
