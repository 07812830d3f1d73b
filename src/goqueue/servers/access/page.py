"""docs/reference/permissions.md, written from the tables: `make docs` puts it in place."""

from __future__ import annotations

from collections.abc import Iterable

from goqueue.security.model import BUILT_IN_ROLES, OPERATIONS
from goqueue.servers.access.doors import HTTP_NEEDS, DoorNeed
from goqueue.servers.access.needs import Rule
from goqueue.servers.access.rules import RULES

_HEAD = """\
# Permissions

This page is made from the code (`make docs`), and a test fails when it is not current.

With security on, every call of every client is checked here, whatever protocol it came by: HTTP, Kafka and gRPC use
the same services. What is not listed is refused. A rule (`goqueue security acl`) or a role (`goqueue security role`)
allows an operation on resources; a rule that denies wins. Read, write, delete and alter allow describe too; alter
configs allows describe configs.

## Resources and operations

| resource | named by | operations |
|---|---|---|
"""
_NAMED = {
    "topic": "name, prefix, or `*`; schema subjects count as the topic that they are named for",
    "group": "group id, prefix, or `*`; pipelines read in groups",
    "cluster": "`kafka-cluster`",
    "transactional_id": "id, prefix, or `*`; writers of prepared transactions count as ids",
}
_TEXT = {
    "security": "users, keys, roles and rules",
    "positions": "positions of a queue group",
    "story_reader": "the story of one message",
    "traces": "stories of many messages",
    "tracing": "stories",
    "reads": "messages, by offset",
    "lane_reads": "messages, by priority",
    "fetch": "batches for Kafka consumers",
    "publish": "messages and batches on their way in",
    "delivery": "queues: receive, settle, retry",
    "redrives": "dead letters on their way back",
    "queries": "offsets, sizes and producers",
    "staging": "delayed messages of transactions",
    "defaults": "defaults of topics",
}


def permissions_page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for resource, operations in OPERATIONS.items():
        name = resource.name.lower()
        parts.append(f"| {name} | {_NAMED[name]} | {_words(sorted(one.name for one in operations))} |\n")
    parts.append("\n## Roles\n\n| role | " + " | ".join(_NAMED) + " |\n|---|---|---|---|---|\n")
    for role in BUILT_IN_ROLES.values():
        grants = {one.resource: _words(one.operations) for one in role.grants}
        parts.append(f"| {role.name} | " + " | ".join(grants.get(name, "") for name in _NAMED) + " |\n")
    parts.append(
        "\nA role that is bound with a prefix allows its operations on topics, groups and transactional ids whose "
        "names begin so, and nothing on the cluster. Topics of the broker itself (`__audit` and others whose names "
        "begin with two underscores) are covered by a rule that names them, or by one that allows all operations on "
        "all topics, as the role admin does.\n\n## Calls\n"
    )
    for service, rules in RULES.items():
        parts.append(f"\n### {service}\n\n{_TEXT.get(service, service.replace('_', ' ')).capitalize()}.\n\n")
        parts.append("| call | needs |\n|---|---|\n")
        parts += [f"| {name} | {_needs(rule)} |\n" for name, rule in sorted(rules.items())]
    parts.append(
        "\n## HTTP routes with needs of their own\n\nAll other routes need what the calls behind them need.\n\n"
    )
    parts.append("| route | needs |\n|---|---|\n")
    for (method, path), need in sorted(HTTP_NEEDS.items(), key=lambda item: item[0][1]):
        text = _door(need)
        if text:
            parts.append(f"| `{method} {path}` | {text} |\n")
    return "".join(parts)


def _needs(rule: Rule) -> str:
    if rule.needs and not rule.note:
        return ", and ".join(str(need).replace("_", " ") for need in rule.needs)
    return rule.note.replace("\n", " ") or "nothing but to be authenticated"


def _door(need: DoorNeed) -> str:
    if need.is_open:
        return "nothing; without credentials there is no detail in the answer"
    texts = []
    if need.operation is not None:
        kind = "the topic of the subject" if need.of_subject else "cluster"
        texts.append(f"{need.operation.name.lower().replace('_', ' ')} on {kind}")
    if need.by_setting:
        who = "" if texts else "to be authenticated"
        texts.append(f"{who}{', ' if who else ''}or nothing if `security.open_routes` has {need.by_setting}")
    return ", ".join(texts)


def _words(names: Iterable[str]) -> str:
    return ", ".join(name.lower().replace("_", " ") for name in names)


if __name__ == "__main__":
    print(permissions_page(), end="")  # noqa: T201
