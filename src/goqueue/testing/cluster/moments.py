"""Moments at which the loss of a node hurts: what is under way in a simulated cluster, and on which nodes."""

from __future__ import annotations

from goqueue.testing.cluster.cluster import SimCluster


def leaders_ahead(cluster: SimCluster) -> set[int]:
    """Leaders that have records which some followers lack."""
    return {
        number
        for number, slot in cluster.slots.items()
        if slot.node is not None
        and any(
            writer.log.high_watermark < writer.log.end_offset
            for led in slot.node.terms.all()
            for writer in led.writers.values()
        )
    }


def joining(cluster: SimCluster) -> set[int]:
    """Nodes that are being taken into the in-sync replicas, or out of them."""
    return {
        node
        for slot in cluster.slots.values()
        if slot.node is not None
        for led in slot.node.terms.all()
        if led.term.proposed is not None
        for node in led.term.proposed ^ led.term.isr
    }


def fit_followers(cluster: SimCluster) -> set[tuple[int, int]]:
    """Leaders whose in-sync replicas are being changed, each with a follower that is fit to be one of them."""
    return {
        (number, follower)
        for number, slot in cluster.slots.items()
        if slot.node is not None
        for led in slot.node.isr.under_way
        for follower in cluster.slots.keys() - led.term.isr
        if led.term.is_caught_up(follower)
    }


def new_leaders(cluster: SimCluster) -> set[int]:
    """Leaders that do not know yet what is committed."""
    return {
        number
        for number, slot in cluster.slots.items()
        if slot.node is not None
        and any(not writer.is_settled for led in slot.node.terms.all() for writer in led.writers.values())
    }


def leaders(cluster: SimCluster) -> list[int]:
    """Nodes that the metadata names as leaders."""
    image = cluster.metadata.image
    found = {one.leader for topic in image.topics() for one in image.assignments(topic.topic_id)}
    return sorted(node for node in found if node > 0)
