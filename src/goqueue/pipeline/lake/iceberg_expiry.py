"""Forgetting old snapshots of an Iceberg table, and removing the files that only they had, which pyiceberg leaves.

Files are those that manifests name; nothing is listed. Their names are written down before the snapshots are forgotten:
what a kill leaves, the next run removes. Only files below the table's own location are removed, and none if the table
says `gc.enabled: false`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

from goqueue.pipeline.lake.table import Batch
from goqueue.pipeline.lake.write_log import WriteLog
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

# In place of the query and the number of a batch.
_EXPIRED = Batch("goqueue-expired", 0)


def expire(table: Table, log: WriteLog, older_than_ms: int) -> int:
    """Forget snapshots that are older; returns how many. Those that a branch or a tag names stay."""
    before = len(table.metadata.snapshots)
    removes = table.properties.get("gc.enabled", "true").lower() != "false"
    if removes:
        old = [one for one in table.metadata.snapshots if one.timestamp_ms < older_than_ms]
        young = [one for one in table.metadata.snapshots if one.timestamp_ms >= older_than_ms]
        gone = _files(table, old) - _files(table, young)
        if gone:
            log.announce(log.begin(_EXPIRED), *sorted(gone))
    # Naive, in UTC: so pyiceberg wants it.
    until = dt.datetime.fromtimestamp(older_than_ms / 1000, dt.UTC).replace(tzinfo=None)
    table.maintenance.expire_snapshots().older_than(until).commit()
    reached("lake-expired", 0)
    table.refresh()
    left = log.attempts(_EXPIRED.query) if removes else []
    if left:
        # Also snapshots that were committed meanwhile: they may have taken files over from their parent.
        kept = _files(table, table.metadata.snapshots)
        for attempt in left:
            log.drop_unused(attempt, kept)
            log.forget(attempt)
    return before - len(table.metadata.snapshots)


def _files(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """All files below the table's location that these snapshots consist of, as the log names them."""
    named: set[str] = set()
    for snapshot in snapshots:
        if snapshot.manifest_list:
            named.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in named:
                # Snapshots share most of their manifests.
                continue
            named.add(manifest.manifest_path)
            named.update(one.data_file.file_path for one in manifest.fetch_manifest_entry(table.io))
    inside = f"{table.location().rstrip('/')}/"
    return {_path(one) for one in named if one.startswith(inside)}


def data_paths(table: Table) -> set[str]:
    """The files with rows that the table consists of, as the log names them."""
    from pyiceberg.manifest import ManifestContent

    snapshot = table.current_snapshot()
    return {
        _path(one.data_file.file_path)
        for manifest in (snapshot.manifests(table.io) if snapshot else ())
        if manifest.content == ManifestContent.DATA
        for one in manifest.fetch_manifest_entry(table.io)
    }


def _path(location: str) -> str:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    return PyArrowFileIO.parse_location(location)[2]
