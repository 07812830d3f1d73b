"""The table: what every method that a front-end may call needs. What is not here is refused.

A row is `method: rule`. `topic(READ)` needs read on the topic that the first argument names; `OPEN` needs nothing,
since the call tells nothing and changes nothing that another row does not guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from goqueue.security.model import Operation, Resource
from goqueue.servers.access import special
from goqueue.servers.access.needs import Need, Pick, Rule, Special, first, the_cluster, topic_of_subject

READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS

OPEN = Rule()


def topic(operation: Operation, pick: Pick = first) -> Rule:
    """An operation on topics."""
    return Rule((Need(operation, Resource.TOPIC, pick),))


def group(operation: Operation, pick: Pick = first) -> Rule:
    """An operation on groups."""
    return Rule((Need(operation, Resource.GROUP, pick),))


def transaction(operation: Operation, pick: Pick = first) -> Rule:
    """An operation on transactional ids; writers of prepared transactions are named like them."""
    return Rule((Need(operation, Resource.TRANSACTIONAL_ID, pick),))


def cluster(operation: Operation) -> Rule:
    """An operation on the cluster."""
    return Rule((Need(operation, Resource.CLUSTER, the_cluster),))


def both(*rules: Rule) -> Rule:
    """All that the rules need."""
    return Rule(tuple(need for rule in rules for need in rule.needs))


def checks(make: Special) -> Rule:
    """A rule that checks by itself, as its docstring says."""
    return Rule(special=make, note=(make.__doc__ or "").strip())


def _named(command: Any, *_args: Any, **_more: Any) -> str:
    return str(command.group)


def _topics_of_command(command: Any, *_args: Any, **_more: Any) -> Iterable[str]:
    return command.topics or ()


def _second(_first: Any, value: Any, *_args: Any, **_more: Any) -> str:
    return str(value)


def _second_place(_first: Any, at: Any, *_args: Any, **_more: Any) -> str:
    return str(at.topic)


def _places(_first: Any, places: Iterable[Any], *_args: Any, **_more: Any) -> set[str]:
    return {at.topic for at in places}


def _place(at: Any, *_args: Any, **_more: Any) -> str:
    return str(at.topic)


def _positions(positions: Iterable[Any], *_args: Any, **_more: Any) -> set[str]:
    return {at.topic for at in positions}


def _name(value: Any, *_args: Any, **_more: Any) -> str:
    return str(value.name)


def _topic_of(value: Any, *_args: Any, **_more: Any) -> str:
    return str(value.topic)


def _places_of_receive(request: Any, *_args: Any, **_more: Any) -> set[str]:
    return {at.topic for at in request.places}


def _leases(leases: Iterable[Any], *_args: Any, **_more: Any) -> set[str]:
    return {str(lease.place).rpartition(":")[0] for lease in leases}


def _given_topic(_group: Any, name: str | None = None, *_args: Any, **_more: Any) -> Iterable[str]:
    return () if not name else (name,)


def _topic_of_subject(subject: str, *_args: Any, **_more: Any) -> str:
    return topic_of_subject(subject)


def _referenced(_subject: str, new: Any, *_args: Any, **_more: Any) -> set[str]:
    """The topics of the subjects whose schemas a new one uses: to use a schema is to read it."""
    return {topic_of_subject(one.subject) for one in new.references}


def _with_references(operation: Operation) -> Rule:
    needs = both(topic(operation, _topic_of_subject), topic(DESCRIBE, _referenced)).needs
    note = f"{operation.name.capitalize()} on the topic of the subject, and describe on those of its references."
    return Rule(needs, note=note)


def _third_group(_id: Any, _producer: Any, name: str, *_args: Any, **_more: Any) -> str:
    return name


RULES: Mapping[str, Mapping[str, Rule]] = MappingProxyType(
    {
        "topics": {
            "add_partitions": topic(ALTER),
            "alter_config": topic(ALTER_CONFIGS),
            "assignments": topic(DESCRIBE, _name),
            "by_id": checks(special.topic_by_id),
            "config": topic(DESCRIBE),
            "create": checks(special.created_topic),
            "delete": topic(DELETE),
            "describe_config": topic(DESCRIBE_CONFIGS),
            "ensure": Rule(note="Describe on the topic, and create if it is not there."),
            "find": topic(DESCRIBE),
            "get": topic(DESCRIBE),
            "list": checks(special.listed_topics),
        },
        "defaults": {"alter": cluster(ALTER_CONFIGS), "altered": cluster(DESCRIBE_CONFIGS)},
        "schemas": {
            # Reads the registry; what a route may read by it, the route's own need says.
            "ask": OPEN,
            # The caller has the values, and whoever asks checks first that it may see the schema.
            "decoded_many": OPEN,
            "delete_subject": topic(DELETE, _topic_of_subject),
            "delete_version": topic(DELETE, _topic_of_subject),
            "lookup": _with_references(DESCRIBE),
            "register": _with_references(WRITE),
            "set_config": checks(special.altered_scope),
            "set_mode": checks(special.altered_scope),
            "test": _with_references(DESCRIBE),
        },
        "publish": {
            "append": topic(WRITE),
            "opening": topic(WRITE),
            "publish_records": topic(WRITE),
            "take": topic(WRITE),
        },
        "tracing": {
            "reader": Rule(note="See `story_reader`."),
            "stats": cluster(DESCRIBE),
            "traces": Rule(note="See `traces`."),
        },
        "story_reader": {"story": topic(READ)},
        "traces": {
            "get": checks(special.one_trace),
            "recent": checks(special.recent_traces),
            "search": checks(special.found_traces),
        },
        "fetch": {
            "fetch": checks(special.fetched),
            "fetch_now": checks(special.fetched_now),
            "count_given": topic(READ),
        },
        "queries": {
            "append_time_ms": topic(DESCRIBE),
            "delete_records": topic(DELETE),
            "epoch_end": topic(DESCRIBE),
            "list_offset": topic(DESCRIBE),
            "log_dirs": cluster(DESCRIBE),
            "log_ends": cluster(CLUSTER_ACTION),
            "offsets": topic(DESCRIBE),
            # Only has the partitions opened; what is asked about them then needs its own permission.
            "opened": OPEN,
            "opening": OPEN,
            "producers": topic(READ),
            "size_bytes": topic(DESCRIBE),
        },
        "cluster": dict.fromkeys(
            # Addresses and leaders, which every client needs; what topics there are, other rows guard.
            (
                "assignments",
                "broker",
                "brokers",
                "clock_skew_ms",
                "controller",
                "controller_epoch",
                "coordinator",
                "epoch_of",
                "revision",
                "is_alive",
                "nodes",
            ),
            OPEN,
        )
        | {
            "clock_skew_ms_max": cluster(DESCRIBE),
            "controller_since_ms": cluster(DESCRIBE),
            "election_seconds": cluster(DESCRIBE),
            "event_counts": cluster(DESCRIBE),
            "events": cluster(DESCRIBE),
            "lags": cluster(DESCRIBE),
            "partitions": cluster(DESCRIBE),
            "watch": cluster(DESCRIBE),
        },
        "replicas": {
            "cancel_reassignment": cluster(ALTER),
            "elect": cluster(ALTER),
            "reassign": cluster(ALTER),
            "reassignments": cluster(DESCRIBE),
        },
        "partitions": {
            "append_time_ms": topic(DESCRIBE, _place),
            "bounds": topic(DESCRIBE, _positions),
            "delete_records": topic(DELETE),
            "offset_at": topic(DESCRIBE, _place),
            "sizes": topic(DESCRIBE, _positions),
        },
        "reads": {"read": topic(READ, _positions)},
        "lane_reads": {"read": topic(READ, _place)},
        "producer_ids": {
            "allocate": checks(special.allocated_id),
            "allocate_plain": checks(special.allocated_id),
        },
        "transactions": {
            "abort": transaction(WRITE),
            "abort_hanging": cluster(ALTER),
            "add_group": both(transaction(WRITE), group(READ, _third_group)),
            "add_partitions": checks(special.added_partitions),
            "join_offsets": both(transaction(WRITE), group(READ, _third_group)),
            "take_part": transaction(WRITE),
            "admit": Rule(
                note="Write on the transactional id or writer of the producer. "
                "Topics that may not be written to are left out."
            ),
            "begin": transaction(WRITE),
            "check_is": OPEN,
            "decide_epoch": transaction(WRITE),
            "describe": transaction(DESCRIBE),
            "describe_writer": transaction(DESCRIBE),
            "end": transaction(WRITE),
            "ending_count": cluster(DESCRIBE),
            "heard": transaction(WRITE),
            "id_of": OPEN,
            "init_producer": transaction(WRITE),
            "is_participant": OPEN,
            "join": Rule(note="Write on the transactional id or writer of the producer, and on the topic."),
            "list": checks(special.listed_transactions),
            "list_writers": checks(special.listed_writers),
            "open_participant": transaction(WRITE),
            # Names whose transactions a producer writes, for those who then check what the caller may do with it.
            "owner_of": OPEN,
            "find_owner": OPEN,
            "session_count": cluster(DESCRIBE),
            "statistics": cluster(DESCRIBE),
        },
        "delay": {
            "cancel": topic(WRITE),
            "deliver_now": topic(WRITE),
            "get": topic(READ),
            "hold": topic(WRITE),
            "list": topic(READ),
            "reschedule": topic(WRITE),
            "stats": cluster(DESCRIBE),
        },
        "staging": {"load": topic(WRITE)},
        "schedules": {
            "create": topic(WRITE, _topic_of),
            "delete": Rule(note="Write on its topic; otherwise there is no such schedule."),
            "get": checks(special.one_schedule),
            "list": checks(special.listed_schedules),
        },
        "groups": {
            "alter_queue": group(ALTER_CONFIGS),
            "alter_settings": group(ALTER_CONFIGS),
            "commit": checks(special.committed),
            "commit_in_transaction": checks(special.committed),
            "consumer_heartbeat": both(group(READ, _named), topic(DESCRIBE, _topics_of_command)),
            "delete": group(DELETE),
            "delete_offsets": both(group(DELETE), topic(READ, _places)),
            "describe": group(DESCRIBE),
            "ensure_queue": group(READ),
            "fetch_offsets": checks(special.fetched_offsets),
            "heartbeat": group(READ, _named),
            "join": group(READ, _named),
            "leave": group(READ, _named),
            "list": checks(special.listed_groups),
            "mode": group(DESCRIBE),
            "new_member_id": OPEN,
            "queue_settings": group(DESCRIBE),
            "rebalance_statistics": checks(special.rebalances),
            "settings": group(DESCRIBE_CONFIGS),
            "sync": group(READ, _named),
        },
        "delivery": {
            "acquire": both(group(READ), topic(READ, _second_place)),
            "govern": group(ALTER_CONFIGS),
            "lane_quotas": both(group(READ), topic(READ, _places)),
            "policy": both(group(DESCRIBE), topic(DESCRIBE, _given_topic)),
            "positions": Rule(note="`forget_topic`: delete on the group and read on the topic."),
            "priority_stats": checks(special.figures_of),
            "promise": topic(READ, special.topics_of_receipts),
            "receive": both(group(READ, _named), topic(READ, _places_of_receive)),
            "release_consumer": group(READ),
            "set_aside": both(group(READ), topic(READ, _second_place)),
            "settle": topic(READ, special.topics_of_settlements),
            "settle_leases": topic(READ, _leases),
            "settle_ranges": both(group(READ), topic(READ, _second_place)),
            "places_of": topic(READ, special.topics_of_receipts),
            "stats": checks(special.figures_of),
            # Reads what `acquire` gave, which is guarded.
            "stretches": OPEN,
            "wait": both(group(READ), topic(READ, _places)),
        },
        "positions": {"forget_topic": both(group(DELETE), topic(READ, _second))},
        "redrives": {
            "cancel": topic(READ),
            "progress": topic(READ),
            "start": checks(special.redriven),
        },
        "eager_groups": {
            "heartbeat": group(READ),
            "join": both(group(READ), Rule((Need(READ, Resource.TOPIC, lambda _group, names, **_: tuple(names)),))),
            "leave": group(READ),
        },
        "group_polls": {
            "assignment": group(READ),
            "forget": group(READ),
            "poll": Rule(note="Read on the group and on every topic that the member is assigned."),
        },
        "group_progress": {
            "of": checks(special.group_progress),
            "reset": Rule(note="Read on the group and on the topic, or on all topics of the group."),
        },
        "security": {
            "acls": cluster(DESCRIBE),
            "all_keys": cluster(DESCRIBE),
            "add_acls": cluster(ALTER),
            "alter_scram": cluster(ALTER),
            "bind": cluster(ALTER),
            "bindings": cluster(DESCRIBE),
            "create_key": cluster(ALTER),
            "delete_acls": cluster(ALTER),
            "delete_key": cluster(ALTER),
            "delete_role": cluster(ALTER),
            "delete_user": cluster(ALTER),
            "put_role": cluster(ALTER),
            "put_user": cluster(ALTER),
            "roles": cluster(DESCRIBE),
            "unbind": cluster(ALTER),
            "users": cluster(DESCRIBE),
            "whoami": OPEN,
        },
    }
)

# Fields of the bundle that are values, or that guard themselves.
PLAIN_FIELDS = frozenset({"identity", "config", "clock", "answers", "request_times", "checks", "metrics", "caller"})
