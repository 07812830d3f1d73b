"""The JSON Schema of a pipeline file, from the types that read it: editors complete and check with it."""

from __future__ import annotations

from typing import Any

import msgspec

from goqueue.pipeline.declared.form.parameters import ENVIRONMENTS, PARAMETERS
from goqueue.pipeline.declared.form.sinks import SINKS
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.spec import Case, Head
from goqueue.pipeline.declared.form.steps import STEPS
from goqueue.pipeline.declared.form.words import Form


def file_schema() -> dict[str, Any]:
    """The schema of the whole file."""
    types: list[type[Form]] = [Head, Source, *STEPS.values(), *SINKS.values(), Case]
    refs, components = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    ref = dict(zip(types, refs, strict=True))
    head = components.pop("Head")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "GoQueue pipeline",
        "type": "object",
        "additionalProperties": False,
        "required": [*head["required"], "sources", "sinks"],
        "properties": {
            **head["properties"],
            "sources": {"type": "object", "minProperties": 1, "additionalProperties": ref[Source]},
            "steps": {"type": "array", "items": _one_of({kind: ref[type_] for kind, type_ in STEPS.items()})},
            "sinks": {
                "type": "array",
                "minItems": 1,
                "items": _one_of({kind: ref[type_] for kind, type_ in SINKS.items()}),
            },
            "tests": {"type": "array", "items": ref[Case]},
            PARAMETERS: _values(),
            ENVIRONMENTS: {"type": "object", "additionalProperties": _values()},
        },
        "$defs": components,
    }


def _values() -> dict[str, Any]:
    """Parameters, by their names."""
    return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def _one_of(kinds: dict[str, Any]) -> dict[str, Any]:
    """An entry with one key, which says what it is."""
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": kinds,
    }
