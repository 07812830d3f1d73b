"""The commands of `goqueue cluster`, in the order in which a user needs them."""

from __future__ import annotations

import typer

from goqueue.cli.cluster.check import check
from goqueue.cli.cluster.describe import cluster_health, info, nodes
from goqueue.cli.cluster.founding import certificates, init
from goqueue.cli.cluster.metadata_store import backup, copies, elect, restore
from goqueue.cli.cluster.partitions import partitions
from goqueue.cli.cluster.recover import recover
from goqueue.cli.cluster.replace import replace
from goqueue.cli.cluster.up import up

app = typer.Typer(help="Create a cluster, run one on this machine, and administer it.", no_args_is_help=True)

app.command()(init)
app.command()(check)
app.command()(certificates)
app.command()(up)
app.command()(info)
app.command("health")(cluster_health)
app.command()(nodes)
app.command()(partitions)
app.command()(elect)
app.command()(copies)
app.command()(replace)
app.command()(backup)
app.command()(restore)
app.command()(recover)
