"""JSON Schema: a reader reads what a writer wrote if every value that the writer's schema allows is allowed by its own.

The differ (`json_differ.py`) compares the two keyword by keyword and names the place of each difference. It looks at
one keyword at a time, so jsonschema-rs, which reasons about whole schemas, may prove it wrong in either direction.
Where the library cannot tell, the differ decides.
"""

from __future__ import annotations

from goqueue.formats.compatibility.json_differ import Differ, Document
from goqueue.formats.json_schema import JsonSchema
from goqueue.formats.libraries import library
from goqueue.formats.source import Problem, Source


def problems_of(reader: Source, writer: Source) -> list[Problem]:
    """Why the reader cannot read all that the writer writes."""
    new, old = JsonSchema(reader), JsonSchema(writer)
    if (reader.text, reader.imports) == (writer.text, writer.imports):
        return []
    differ = Differ(Document(new.document, new.imports), Document(old.document, old.imports))
    found = differ.compare(new.document, old.document, "#")
    proof = _covers(new, old)
    if proof is True:
        return []
    if proof is False and not found:
        return [Problem("SCHEMA_NARROWED", "#", "values that the old schema allows are refused by the new one")]
    return found


def _covers(new: JsonSchema, old: JsonSchema) -> bool | None:
    """Whether the library proves that the new schema allows all that the old one does, or that it does not."""
    rs = library("jsonschema_rs")
    if new.draft != old.draft:
        return None
    try:
        wide, narrow = (
            rs.canonicalize(one.document, draft=getattr(rs, one.draft), **one.options) for one in (new, old)
        )
        answer = str(wide.covers(narrow))
    except Exception:  # noqa: BLE001 - the library says in many ways that it cannot tell
        return None
    return {"yes": True, "no": False}.get(answer)
