"""Commits to a catalog of Iceberg tables whose answer was lost.

A catalog that is asked again because its answer was lost reports a conflict with the commit that it has made. pyiceberg
takes that for a commit that failed and removes its manifests, which are part of the table by then. So a conflict is not
passed on before it is seen that the snapshot is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def look_again(catalog: Catalog) -> Any:
    """The same catalog, which looks at the table before it reports a conflict."""
    return catalog if isinstance(catalog, _LooksAgain) else _LooksAgain(catalog)


class _LooksAgain:
    """Everything but commits is done by the catalog itself."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(self, table: Any, requirements: tuple[Any, ...], updates: tuple[Any, ...]) -> Any:
        """Change a table; raises the conflict unless all snapshots of this change are in the table."""
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table import CommitTableResponse
        from pyiceberg.table.update import AddSnapshotUpdate

        try:
            return self._catalog.commit_table(table, requirements, updates)
        except CommitFailedException:
            wanted = [one.snapshot.snapshot_id for one in updates if isinstance(one, AddSnapshotUpdate)]
            now = self._catalog.load_table(table.name())
            if not wanted or any(now.metadata.snapshot_by_id(one) is None for one in wanted):
                raise
            return CommitTableResponse(metadata=now.metadata, metadata_location=now.metadata_location)
