"""A dead node is replaced: what would be lost with its disk, and the settings of the machine that takes its place."""

from __future__ import annotations

import tomllib
from uuid import UUID

from goqueue.metadata.events import Assignment, Node, NodeChanged, SessionChanged, Topic, TopicCreated
from goqueue.metadata.image import Image
from goqueue.node.cluster.operations.replacing import partitions_at_risk
from goqueue.node.cluster.operations.settings_file import Place, Settings, as_toml, changed_for_others, settings_for

PLACE = Place(
    2,
    {"kafka": "10.0.0.2:9092", "http": "10.0.0.2:8080", "peer": "10.0.0.2:9192"},
    rack="b",
    etcd_client="https://10.0.0.2:2379",
)


def settings_of(node: int) -> Settings:
    """As `goqueue cluster init` writes them, on three machines."""
    return {
        "broker": {"node_id": node, "data_dir": f"/srv/prod/node{node}"},
        "listeners": {"kafka": f"10.0.0.{node}:9092", "http": f"10.0.0.{node}:8080"},
        "cluster": {"peers": [f"{one}=10.0.0.{one}:9192" for one in (1, 2, 3)], "secret_file": "/srv/prod/secret"},
        "metadata": {
            "mode": "managed",
            "voters": [f"{one}=https://10.0.0.{one}:2380" for one in (1, 2, 3)],
            "listen": f"https://10.0.0.{node}:2379",
            "endpoints": [f"https://10.0.0.{one}:2379" for one in (1, 2, 3)],
            "founding_file": f"/srv/prod/node{node}.founding",
            "tls_certificate": f"/srv/prod/etcd-tls/node{node}.pem",
        },
    }


def test_the_former_settings_serve_again_but_found_no_cluster() -> None:
    made = settings_for(PLACE, settings_of(2), cluster_id="c")
    assert "founding_file" not in made["metadata"]
    assert made["metadata"]["cluster_id"] == "c"
    assert made["broker"] == settings_of(2)["broker"]
    assert changed_for_others(settings_of(2), made) == []


def test_without_the_former_settings_those_of_another_node_are_taken() -> None:
    made = settings_for(PLACE, settings_of(1), cluster_id="c")
    expected = settings_for(PLACE, settings_of(2), cluster_id="c")
    expected["cluster"]["rack"] = "b"
    assert made == expected


def test_at_another_address_only_the_entries_of_that_node_change() -> None:
    made = settings_for(PLACE, settings_of(2), cluster_id="c", host="10.0.0.9")
    assert made["listeners"] == {"kafka": "10.0.0.9:9092", "http": "10.0.0.9:8080"}
    assert made["cluster"]["peers"] == ["1=10.0.0.1:9192", "2=10.0.0.9:9192", "3=10.0.0.3:9192"]
    assert made["metadata"]["listen"] == "https://10.0.0.9:2379"
    assert made["metadata"]["voters"][1] == "2=https://10.0.0.9:2380"
    assert [one.split(" = ")[0] for one in changed_for_others(settings_of(2), made)] == [
        "cluster.peers",
        "metadata.voters",
        "metadata.endpoints",
    ]


def test_a_listener_on_all_interfaces_stays_one() -> None:
    base = settings_of(2)
    base["listeners"]["kafka"] = "0.0.0.0:9092"
    assert settings_for(PLACE, base, cluster_id="c", host="10.0.0.9")["listeners"]["kafka"] == "0.0.0.0:9092"


def test_the_file_is_read_back_as_it_was_made() -> None:
    made = settings_for(PLACE, settings_of(1), cluster_id='with "quotes"', host="::1")
    made["listeners"]["allow_insecure"] = True
    assert tomllib.loads(as_toml(made, "Node 2.")) == made


def test_partitions_whose_last_in_sync_replica_is_lost_are_named() -> None:
    image = Image()
    assignments = (
        Assignment(leader=1, leader_epoch=3, replicas=(1, 2, 3), isr=(1, 3)),
        Assignment(leader=-1, leader_epoch=3, replicas=(2, 3), isr=(2,)),
        Assignment(leader=-1, leader_epoch=3, replicas=(2, 3), isr=(3,)),
        Assignment(leader=1, leader_epoch=3, replicas=(1,), isr=(1,)),
    )
    image.apply(TopicCreated(Topic("orders", UUID(int=1), 4), assignments), 1)
    for node_id in (1, 2, 3):
        image.apply(NodeChanged(node_id, Node(node_id, UUID(int=node_id), broker_epoch=node_id, fenced=False)), 1)
    image.apply(SessionChanged(1, 1), 1)
    assert partitions_at_risk(image, 2) == [
        "orders-1: node 2 was its last in-sync replica",
        "orders-2: its other in-sync replicas are on nodes 3, which are away",
    ]
