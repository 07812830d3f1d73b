"""Commands that work on the metadata store itself, with the settings of any node, whether or not a broker answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import structs

from goqueue.cli.cluster.store import ConfigFile, with_kv, with_store
from goqueue.cli.session import REFUSED
from goqueue.config import Config
from goqueue.errors import ConfigError, InvalidRequest, PartitionNotFound, TopicNotFound
from goqueue.metadata.image import Image

if TYPE_CHECKING:
    from goqueue.cluster.control.plan import Change
    from goqueue.metadata.shared.kv_backup import MetadataBackup

TopicName = Annotated[str, typer.Argument(help="The topic.")]
_LOOK_S = 0.2


def elect(
    topic: TopicName,
    config: ConfigFile,
    partition: Annotated[int | None, typer.Option("--partition", help="Only this one.", min=0)] = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Elect any live replica where there is no leader. Records can be lost."),
    ] = False,
    accept_data_loss: Annotated[
        bool, typer.Option("--accept-data-loss", help="With --unclean: do it. Without, it only says what it would do.")
    ] = False,
) -> None:
    """Elect the preferred replicas as leaders, or with --unclean any live replica."""
    from goqueue.cluster.control.elections import forced, preferred
    from goqueue.cluster.control.plan import Change, batches, nodes_of
    from goqueue.metadata.eligibility import eligible_of

    async def work(store: Any, _config: Config, _renew: Callable[[], Awaitable[None]]) -> list[str]:
        image: Image = store.image
        found = image.topic(topic)
        if found is None:
            raise TopicNotFound(topic)
        assignments = image.assignments(found.topic_id)
        if partition is not None and partition >= len(assignments):
            raise PartitionNotFound(topic, partition)
        nodes, changes = nodes_of(image), []
        for number, one in enumerate(assignments):
            if partition in (None, number):
                known = structs.replace(one, eligible=eligible_of(image, found, one))
                after = (forced(known, nodes) if one.leader < 0 else None) if unclean else preferred(known, nodes)
                if after is not None:
                    changes.append(Change(found, number, one, after, is_unclean=unclean))
        if unclean and not accept_data_loss:
            return [_would_lead(topic, one) for one in changes]
        for batch in batches(image, changes):
            await store.commit(batch.events, batch.guards)
        return [f"{topic}-{one.partition}: node {one.after.leader} leads" for one in changes]

    lines = with_store(config, work)
    for line in lines:
        typer.echo(line)
    if not lines:
        typer.echo("nothing to elect: no partition is without a leader" if unclean else "nothing to elect")
    elif unclean:
        _warn(is_done=accept_data_loss)


def _warn(*, is_done: bool) -> None:
    if is_done:
        typer.echo(
            "warning: records that only other replicas had are lost. If such a replica comes back, the event "
            "RecordsLost at /cluster/events and the metric goqueue_cluster_lost_records_total say how many",
            err=True,
        )
        return
    typer.echo(
        "nothing was changed: bring one of these nodes back, and nothing is lost; if none will ever come back, "
        "repeat the command with --accept-data-loss",
        err=True,
    )
    raise typer.Exit(REFUSED)


def _would_lead(topic: str, one: Change) -> str:
    had = ", ".join(map(str, (*one.before.isr, *one.before.eligible)))
    return f"{topic}-{one.partition}: node {one.after.leader} would lead; node {had} had all that was acknowledged"


def copies(
    count: Annotated[int, typer.Argument(help="Copies that every partition is to have.", min=1)],
    config: ConfigFile,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Only this topic. Otherwise all, internal ones first.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Also remove copies where there are more.")] = False,
) -> None:
    """Add copies to partitions that have fewer, and wait until they have caught up. Ctrl-C stops only the waiting."""
    from goqueue.cluster.control.placement import ClusterPlacement
    from goqueue.cluster.control.replicas import ReplicaChanges, progress
    from goqueue.node.config.cluster_settings import peers_of

    async def work(store: Any, loaded: Config, renew: Callable[[], Awaitable[None]]) -> None:
        placement = ClusterPlacement(
            lambda: store.image,
            peers_of(loaded).keys(),
            copies_default=loaded.cluster.replication_factor,
            min_insync=loaded.cluster.min_insync_replicas,
        )
        changes = ReplicaChanges(store, placement)
        names = [one.name for one in sorted(store.image.topics(), key=lambda one: (not one.internal, one.name))]
        if topic is not None and topic not in names:
            raise TopicNotFound(topic)
        chosen = names if topic is None else [topic]
        losing = sum([await changes.lower_copies(name, count) for name in chosen]) if remove else 0
        fewer = {name: _with_fewer(store.image, name, count) for name in chosen}
        getting = sum([await changes.raise_copies(name, count) for name in chosen])
        typer.echo(f"{getting} partitions are getting copies")
        if remove:
            typer.echo(f"{losing} partitions are losing copies")
        elif more := _with_more(store.image, chosen, count):
            typer.echo(f"{more} partitions have more than {count} copies: --remove removes those")
        while any(name in chosen for name, _, _ in progress(store.image)):
            await renew()
            await asyncio.sleep(_LOOK_S)
        # Not before: until the copies are there, the minimum would refuse every acks=all, and they cannot lead.
        for name in chosen:
            await changes.raise_minimum(name, count)
            if fewer[name]:
                await changes.spread(name, fewer[name])

    with_store(config, work)


def _with_fewer(image: Image, name: str, count: int) -> list[int]:
    topic = image.topic(name)
    assignments = () if topic is None else image.assignments(topic.topic_id)
    return [number for number, one in enumerate(assignments) if len(one.replicas) < count]


def _with_more(image: Image, names: Collection[str], count: int) -> int:
    topics = [topic for topic in image.topics() if topic.name in names]
    return sum(len(one.replicas) > count for topic in topics for one in image.assignments(topic.topic_id))


def backup(
    file: Annotated[Path, typer.Argument(help="File that is written; it must not exist.")], config: ConfigFile
) -> None:
    """Write the cluster's metadata to a file: topics, settings, assignments, users and rules. No messages."""
    from goqueue.metadata.shared.kv_backup import take_backup
    from goqueue.security.certificates import write_private

    if file.exists():
        raise ConfigError([f"{file} exists already"])
    if not file.parent.is_dir():
        raise ConfigError([f"{file}: there is no folder {file.parent}"])

    async def work(kv: Any, loaded: Config) -> Any:
        return await take_backup(kv, loaded.metadata.prefix)

    taken = with_kv(config, work)
    if not taken.cluster_id:
        raise InvalidRequest("there is no cluster in this metadata store")
    write_private(file, taken.encoded())
    typer.echo(f"{len(taken.pairs)} keys of cluster {taken.cluster_id} at revision {taken.revision} are in {file}")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `cluster backup` wrote.")], config: ConfigFile
) -> None:
    """Write a backup into an empty metadata store, with all brokers stopped. Later changes of metadata are lost."""
    from goqueue.metadata.shared.kv_backup import restore_backup
    from goqueue.node.cluster.operations.recovering import check_cluster, generation_seen

    content = read_backup(file)

    async def work(kv: Any, loaded: Config) -> int:
        check_cluster(loaded, content, file)
        return await restore_backup(kv, loaded.metadata.prefix, content, generation_min=generation_seen(loaded) + 1)

    generation = with_kv(config, work)
    typer.echo(
        f"cluster {content.cluster_id} is restored as of revision {content.revision}, in generation {generation}: "
        "start the brokers"
    )


def read_backup(file: Path) -> MetadataBackup:
    """The content of a file that `cluster backup` wrote; raises `ConfigError` or `InvalidRequest`."""
    from goqueue.metadata.shared.kv_backup import decode_backup

    try:
        return decode_backup(file.read_bytes())
    except OSError as error:
        raise ConfigError([f"{file}: {os.strerror(error.errno or 0)}"]) from error
