"""What a Delta table may use that is not written here: it is refused, for rows would be lost or break its rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Features by which files hold other rows or names than the table shows.
_UNKNOWN = frozenset({"columnMapping", "deletionVectors", "identityColumns", "generatedColumns", "rowTracking"})
# Tables of older protocols name no features: what a column says of itself tells which is used.
_BY_COLUMN = {
    "delta.generationExpression": "generatedColumns",
    "delta.identity.start": "identityColumns",
    "delta.invariants": "invariants",
}
_CONSTRAINT, _MAPPING = "delta.constraints.", "delta.columnMapping.mode"


def unknown_features(table: DeltaTable) -> list[str]:
    """The names of those that it uses."""
    protocol = table.protocol()
    found = set(_UNKNOWN.intersection([*(protocol.reader_features or ()), *(protocol.writer_features or ())]))
    settings = table.metadata().configuration
    if settings.get(_MAPPING, "none") != "none":
        found.add("columnMapping")
    if any(name.startswith(_CONSTRAINT) for name in settings):
        found.add("checkConstraints")
    for field in json.loads(table.schema().to_json())["fields"]:
        found.update(feature for name, feature in _BY_COLUMN.items() if name in field["metadata"])
    return sorted(found)
