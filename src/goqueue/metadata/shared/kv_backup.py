"""Backups of a cluster's metadata: all pairs that are not bound to a session, as a file and back into an empty store.

A restore begins a new generation, which is part of every broker and controller epoch, and raises every leader epoch far
above what a log can have seen since the backup: otherwise revisions and epochs would be used twice. Nobody leads, and
every node is fenced until it has registered again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import structs

from goqueue.errors import Conflict, InvalidRequest
from goqueue.metadata import keys
from goqueue.metadata.shared.kv import Compare, Kv, Put
from goqueue.metadata.shared.kv_members import decode_node, encode_node
from goqueue.metadata.shared.kv_pairs import STAGES, WRITERS, below
from goqueue.metadata.shared.kv_values import decode_stored_assignment, encode_assignment

FORMAT = 1
LEADER_EPOCHS_ADDED = 1_000_000
_WRITES_PER_BATCH = 100
_OF_SESSIONS = (keys.SESSIONS, keys.CONTROLLER, WRITERS, STAGES)


class MetadataBackup(msgspec.Struct, frozen=True):
    """The content of a backup."""

    format: int
    cluster_id: str
    revision: int
    pairs: dict[str, bytes]

    @property
    def generation(self) -> int:
        """How often the metadata had been restored before."""
        return int(self.pairs.get(keys.GENERATION, b"0"))

    def encoded(self) -> bytes:
        """As a file has it."""
        return msgspec.json.encode(self)


def decode_backup(content: bytes) -> MetadataBackup:
    """Read such a file; raises `InvalidRequest`."""
    try:
        backup = msgspec.json.decode(content, type=MetadataBackup)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"this is not a backup of metadata: {error}") from error
    if backup.format != FORMAT:
        raise InvalidRequest(f"the backup has format {backup.format}, this version reads {FORMAT}")
    return backup


async def take_backup(kv: Kv, prefix: str) -> MetadataBackup:
    """All metadata at one revision; raises `KvError`."""
    found = await kv.range(prefix)
    held = below(prefix, found.pairs)
    pairs = {
        key: _without_void(key, value, held) for key, (value, _) in held.items() if not key.startswith(_OF_SESSIONS)
    }
    return MetadataBackup(FORMAT, pairs.get(keys.CLUSTER, b"").decode(), found.revision, pairs)


async def restore_backup(kv: Kv, prefix: str, backup: MetadataBackup, *, generation_min: int = 0) -> int:
    """Write the backup into a store without a cluster, and return the generation that begins with it.

    `generation_min` is above every generation that a data directory is known to have seen. Raises `Conflict` if there
    is a cluster. Its id is written last.
    """
    if (await kv.range(prefix)).pairs:
        raise Conflict(f"there is metadata below {prefix!r} already: a backup is restored into an empty store")
    generation = max(backup.generation + 1, generation_min)
    await _write(kv, _restored(backup, prefix, generation))
    named = Put(prefix + keys.CLUSTER, backup.cluster_id.encode())
    if not (await kv.txn([Compare(named.key, 0)], [named])).succeeded:
        raise Conflict("a node was started during the restore and founded another cluster: stop all nodes first")
    return generation


async def _write(kv: Kv, writes: Sequence[Put]) -> None:
    for at in range(0, len(writes), _WRITES_PER_BATCH):
        await kv.txn([], writes[at : at + _WRITES_PER_BATCH])


def _restored(backup: MetadataBackup, prefix: str, generation: int) -> list[Put]:
    """All but the cluster's id. The number of the generation is first, and assignments are last.

    A list of eligible replicas counts only if it is not older than the settings of its topic.
    """
    # A second restore of one backup must not use the epochs of the first.
    raised_by = LEADER_EPOCHS_ADDED * (generation - backup.generation)
    others, assignments = [Put(prefix + keys.GENERATION, str(generation).encode())], []
    for key, value in backup.pairs.items():
        if key.startswith(keys.PARTITIONS):
            one = decode_stored_assignment(value)
            raised = structs.replace(one, leader=-1, leader_epoch=one.leader_epoch + raised_by)
            assignments.append(Put(prefix + key, encode_assignment(raised)))
        elif key.startswith(keys.NODES):
            others.append(Put(prefix + key, encode_node(structs.replace(decode_node(value), fenced=True))))
        elif key not in (keys.CLUSTER, keys.GENERATION):
            others.append(Put(prefix + key, value))
    return [*others, *assignments]


def _without_void(key: str, value: bytes, held: Mapping[str, tuple[bytes, int]]) -> bytes:
    """An assignment without eligible replicas, if the topic's settings have changed since: see `eligibility`."""
    if not key.startswith(keys.PARTITIONS):
        return value
    one = decode_stored_assignment(value)
    topic_id, _ = keys.parse_partition_key(key)
    settings = held.get(keys.settings_key(topic_id))
    if not one.eligible or settings is None or settings[1] <= held[key][1]:
        return value
    return encode_assignment(structs.replace(one, eligible=()))
