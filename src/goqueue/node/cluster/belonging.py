"""Belonging: which cluster, and which node of it, a data directory belongs to.

The file is written when the node registers for the first time. From then on no other cluster and no other node gets
the directory, and a node on its own does not: its metadata would be old.
"""

from __future__ import annotations

import msgspec

from goqueue.errors import ConfigError
from goqueue.ports import Files

FILE = "cluster.json"
_METADATA_LOG = "metadata"


class Belonging(msgspec.Struct, frozen=True):
    """The content of the file."""

    cluster_id: str
    node_id: int


def belonging_of(files: Files) -> Belonging | None:
    """What the directory says; None if it belongs to no cluster."""
    if not files.exists(FILE):
        return None
    try:
        return msgspec.json.decode(files.read(FILE), type=Belonging)
    except msgspec.DecodeError as error:
        raise ConfigError([f"{FILE} in the data directory cannot be read: {error}"]) from error


def keep_belonging(files: Files, *, node_id: int, cluster_id: str) -> None:
    """Write the file, unless it is there. Blocks."""
    if not files.exists(FILE):
        files.replace(FILE, msgspec.json.encode(Belonging(cluster_id, node_id)))


def check_belonging(files: Files, *, node_id: int, data_dir: str, cluster_id: str | None = None) -> None:
    """Refuse the directory of another node, of another cluster, or of a node on its own."""
    found = belonging_of(files)
    if found is None:
        if files.exists(_METADATA_LOG):
            raise ConfigError(
                [
                    (
                        f"broker.data_dir: {data_dir} belongs to a node on its own: found a cluster from it with "
                        "'goqueue cluster init --from', or name another directory"
                    )
                ]
            )
        return
    if found.node_id != node_id:
        raise ConfigError(
            [f"broker.node_id is {node_id}, but the data in {data_dir} belongs to node {found.node_id} of its cluster"]
        )
    if cluster_id is not None and found.cluster_id != cluster_id:
        raise ConfigError(
            [
                (
                    f"the data in {data_dir} belongs to cluster {found.cluster_id}, but metadata.endpoints and "
                    f"metadata.prefix lead to cluster {cluster_id}"
                )
            ]
        )


def refuse_clustered(files: Files, *, data_dir: str) -> None:
    """Refuse the directory of a cluster to a node on its own."""
    found = belonging_of(files)
    if found is not None:
        raise ConfigError(
            [
                (
                    f"metadata.mode is embedded, but the data in {data_dir} belongs to node {found.node_id} of cluster "
                    f"{found.cluster_id}: start it with the settings of that node"
                )
            ]
        )
