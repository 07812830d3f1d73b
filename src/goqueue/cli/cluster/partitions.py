"""The command `goqueue cluster partitions`: who leads, who is in sync, and how far the others are behind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from goqueue.cli.cluster.store import image_of, with_kv
from goqueue.cli.output import Format, show
from goqueue.cli.session import ContextName, Output, Server, with_client


def partitions(
    topic: Annotated[str | None, typer.Option("--topic", help="Only those of this topic.")] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only those that miss an in-sync replica.")
    ] = False,
    below_minimum: Annotated[
        bool, typer.Option("--below-minimum", help="Only those with fewer in-sync replicas than acks=all needs.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Only those without a leader.")] = False,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            help="Settings file of any node: ask the metadata store, which answers also when no broker does.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """List partitions with their leader, epoch, replicas and in-sync replicas.

    The broker is asked, or with --config the metadata store. The lag of replicas is known to brokers alone, and shown
    as a question mark where none answers.
    """
    if config is None:
        found = with_client(lambda client: client.get("/cluster/partitions"), server, context)["partitions"]
    else:
        found = _stored(config)
    rows = [
        _row(one)
        for one in found
        if (topic is None or one["topic"] == topic)
        and (not under_replicated or len(one["isr"]) < len(one["replicas"]))
        and (not below_minimum or len(one["isr"]) < one["min_insync"])
        and (not offline or one["leader"] < 0)
    ]
    show(rows, output)


def _stored(config: str) -> list[dict[str, Any]]:
    """The partitions as the metadata store has them, in the form in which a broker tells of them."""
    from goqueue.cli.cluster.lags import lags_of
    from goqueue.metadata.eligibility import min_insync_asked

    image = with_kv(config, image_of)
    lags = lags_of(image)
    return [
        {
            "topic": found.name,
            "partition": number,
            "leader": one.leader,
            "leader_epoch": one.leader_epoch,
            "replicas": one.replicas,
            "isr": one.isr,
            "eligible": one.eligible,
            "adding": one.adding,
            "removing": one.removing,
            "min_insync": min_insync_asked(found),
            "lag": lags.get((found.name, number)),
        }
        for found in image.topics()
        for number, one in enumerate(image.assignments(found.topic_id))
    ]


def _row(one: dict[str, Any]) -> dict[str, Any]:
    from goqueue.cli.cluster.lags import shown

    return {
        "partition": f"{one['topic']}-{one['partition']}",
        "leader": one["leader"] if one["leader"] >= 0 else "none",
        "epoch": one["leader_epoch"],
        "replicas": _ids(one["replicas"]),
        "in_sync": _ids(one["isr"]),
        "lag": shown(one.get("lag", {})),
        "eligible": _ids(one["eligible"]),
        "adding": _ids(one["adding"]),
        "removing": _ids(one["removing"]),
    }


def _ids(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))
