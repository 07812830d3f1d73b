"""The live table of `goqueue cluster up`: nodes, what they lead and hold, and what is not as it should be."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.live import Live
from rich.table import Table

from goqueue.cli.cluster.lags import Lags, behind_by_node, lags_of
from goqueue.cluster.control.plan import is_electable
from goqueue.config import Config
from goqueue.metadata.eligibility import min_insync_asked
from goqueue.metadata.events import Assignment, Node
from goqueue.metadata.image import Image
from goqueue.metadata.shared.kv import KvError

_LOOK_S = 1.0


async def watch(configs: Sequence[Path], logs: Path) -> None:
    """Show the cluster until cancelled: a table that is redrawn on a terminal, one line when it is ready elsewhere."""
    from goqueue.metadata.shared.etcd.etcd_kv import EtcdKv
    from goqueue.metadata.shared.kv_snapshot import read_image
    from goqueue.node.cluster.etcd import connect
    from goqueue.node.config.load_config import load

    config: Config = load(str(configs[0]), {}, {})
    kv = EtcdKv(connect(config))
    console = Console(highlight=False)
    is_ready = False
    try:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while True:
                try:
                    image = await read_image(kv, config.metadata.prefix)
                except KvError:
                    image = Image()
                if not is_ready and _living(image) == len(configs):
                    is_ready = True
                    _say_ready(image, logs, config, configs[0])
                if console.is_terminal:
                    lags = await asyncio.to_thread(lags_of, image)
                    live.update(table_of(image, len(configs), lags), refresh=True)
                await asyncio.sleep(_LOOK_S)
    finally:
        await kv.close()


def table_of(image: Image, expected: int, lags: Lags) -> Table:
    """The cluster as it is."""
    behind = behind_by_node(lags)
    partitions = [(topic, one) for topic in image.topics() for one in image.assignments(topic.topic_id)]
    leads = Counter(one.leader for _, one in partitions)
    holds = Counter(node for _, one in partitions for node in one.replicas)
    in_sync = Counter(node for _, one in partitions for node in one.isr)
    under = sum(len(one.isr) < len(one.replicas) for _, one in partitions)
    below = sum(len(one.isr) < min_insync_asked(topic) for topic, one in partitions)
    offline = sum(_is_offline(one) for _, one in partitions)
    controller = image.controller
    size = f"{_living(image)} of {expected} nodes, {len(partitions)} partitions"
    leading = "no controller" if controller is None else f"controller: node {controller[0]}"
    table = Table(
        title=f"cluster {image.cluster_id or '...'}: {size}",
        caption=f"{leading}, under-replicated {under}, below minimum {below}, offline {offline}",
        # Addresses are to be copied: the table fits a terminal of 80 columns with ports of five digits.
        box=SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for column in ("node", "state", "kafka", "http", "leads", "replicas", "in sync", "lag"):
        table.add_column(column, overflow="fold")
    for node_id, node in sorted(image.nodes().items()):
        table.add_row(
            str(node_id),
            state_of(image, node),
            node.addresses.get("kafka", ""),
            node.addresses.get("http", ""),
            str(leads[node_id]),
            str(holds[node_id]),
            str(in_sync[node_id]),
            behind.get(node_id, ""),
        )
    return table


def state_of(image: Image, node: Node) -> str:
    """What a node does: serves, starts, stops, or is gone."""
    if node.node_id not in image.sessions:
        return "stopped" if node.clean_token else "lost"
    if is_electable(image, node):
        return "serving"
    return "stopping" if node.clean_token else "starting"


def _is_offline(one: Assignment) -> bool:
    return one.leader < 0


def _living(image: Image) -> int:
    return sum(is_electable(image, node) for node in image.nodes().values())


def _say_ready(image: Image, logs: Path, config: Config, file: Path) -> None:
    scheme = "https" if config.listeners.http.startswith("tls://") else "http"
    kafka = ",".join(node.addresses["kafka"] for _, node in sorted(image.nodes().items()))
    http = ", ".join(f"{scheme}://{node.addresses['http']}" for _, node in sorted(image.nodes().items()))
    is_locked = config.security.enabled and not any(kind == "user" for kind, _ in image.security_values())
    admin = f"Next   goqueue security reset-admin --config {file}\n" if is_locked else ""
    print(f"The cluster is ready.\nKafka  {kafka}\nHTTP   {http}\nLogs   {logs}\n{admin}Stop   Ctrl-C", flush=True)
    sys.stdout.flush()
