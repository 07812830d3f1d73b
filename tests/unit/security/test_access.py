"""Who may do what: rules, roles, prefixes, hosts, denials."""

from __future__ import annotations

import pytest

from goqueue.security.access import Access
from goqueue.security.model import Acl, Binding, Grant, Operation, Pattern, Permission, Resource, Role
from goqueue.security.store import matching_acls

READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
TOPIC, GROUP, CLUSTER = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER


def acl(
    operation: Operation,
    name: str = "orders",
    *,
    pattern: Pattern = Pattern.LITERAL,
    principal: str = "User:a",
    host: str = "*",
    permission: Permission = Permission.ALLOW,
    resource: Resource = TOPIC,
) -> Acl:
    return Acl(resource, name, pattern, principal, host, operation, permission)


def access(*acls: Acl, bindings: tuple[Binding, ...] = (), roles: tuple[Role, ...] = ()) -> Access:
    made = Access()
    made.set(acls, bindings, {role.name: role for role in roles})
    return made


def test_without_rules_nothing_is_allowed() -> None:
    grants = access().of("User:a", "h")
    assert not any(grants.may(one, TOPIC, "orders") for one in Operation)


def test_a_rule_allows_its_operation_its_resource_and_its_principal() -> None:
    made = access(acl(READ))
    assert made.of("User:a", "h").may(READ, TOPIC, "orders")
    assert not made.of("User:a", "h").may(READ, TOPIC, "orders2")
    assert not made.of("User:a", "h").may(WRITE, TOPIC, "orders")
    assert not made.of("User:a", "h").may(READ, GROUP, "orders")
    assert not made.of("User:b", "h").may(READ, TOPIC, "orders")


@pytest.mark.parametrize("operation", [READ, WRITE, Operation.DELETE, Operation.ALTER])
def test_whoever_may_use_a_topic_may_see_it(operation: Operation) -> None:
    assert access(acl(operation)).of("User:a", "h").may(DESCRIBE, TOPIC, "orders")


def test_a_denial_wins_and_denies_what_it_names_alone() -> None:
    made = access(acl(ALL), acl(READ, "ord", pattern=Pattern.PREFIXED, permission=Permission.DENY))
    grants = made.of("User:a", "h")
    assert not grants.may(READ, TOPIC, "orders")
    assert grants.may(WRITE, TOPIC, "orders")
    assert grants.may(DESCRIBE, TOPIC, "orders")


def test_a_denial_for_everybody_counts_for_those_who_have_a_role() -> None:
    made = access(
        acl(WRITE, principal="User:*", permission=Permission.DENY), bindings=(Binding("User:a", "producer", ""),)
    )
    assert not made.of("User:a", "h").may(WRITE, TOPIC, "orders")
    assert made.of("User:a", "h").may(WRITE, TOPIC, "other")


def test_a_rule_may_name_the_address() -> None:
    made = access(acl(READ, host="10.0.0.1"))
    assert made.of("User:a", "10.0.0.1").may(READ, TOPIC, "orders")
    assert not made.of("User:a", "10.0.0.2").may(READ, TOPIC, "orders")


def test_a_role_for_a_prefix_is_for_that_prefix_and_not_for_the_cluster() -> None:
    made = access(bindings=(Binding("User:a", "admin", "team."),))
    grants = made.of("User:a", "h")
    assert grants.may(Operation.DELETE, TOPIC, "team.x")
    assert grants.may(READ, GROUP, "team.workers")
    assert not grants.may(READ, TOPIC, "other")
    assert not grants.may(Operation.ALTER, CLUSTER)


def test_all_topics_are_not_the_topics_of_the_broker() -> None:
    assert not access(acl(READ, "*")).of("User:a", "h").may(READ, TOPIC, "__audit")
    assert access(acl(READ, "__audit")).of("User:a", "h").may(READ, TOPIC, "__audit")
    assert access(acl(ALL, "*")).of("User:a", "h").may(READ, TOPIC, "__audit")


def test_a_change_counts_for_those_who_are_connected() -> None:
    made = access(acl(READ))
    grants = made.of("User:a", "h")
    assert grants.may(READ, TOPIC, "orders")
    made.set([], [], {})
    assert not grants.may(READ, TOPIC, "orders")


def test_a_role_of_ones_own_and_a_built_in_one_of_the_same_name() -> None:
    own = Role("readonly", (Grant("cluster", ("all",)),))
    made = access(bindings=(Binding("User:a", "readonly", ""),), roles=(own,))
    assert not made.of("User:a", "h").may(Operation.ALTER, CLUSTER)


def test_super_users_may_everything() -> None:
    made = Access(["User:root"])
    made.set([acl(ALL, "*", principal="User:*", permission=Permission.DENY)], [], {})
    assert made.of("User:root", "h").may(Operation.ALTER, CLUSTER)
    assert made.of("User:root", "h").may(READ, TOPIC, "orders")


def test_operations_are_the_bits_of_what_is_allowed() -> None:
    made = access(acl(READ))
    assert made.of("User:a", "h").operations(TOPIC, "orders") == (1 << READ) | (1 << DESCRIBE)
    assert made.of("User:b", "h").operations(TOPIC, "orders") == 0


def test_a_filter_finds_rules_by_what_they_say_or_by_what_they_concern() -> None:
    rules = [acl(READ), acl(READ, "ord", pattern=Pattern.PREFIXED), acl(READ, "*"), acl(READ, "other")]
    assert len(matching_acls(rules)) == 4
    assert [one.name for one in matching_acls(rules, name="orders", pattern=Pattern.LITERAL)] == ["orders"]
    found = matching_acls(rules, name="orders", pattern=Pattern.MATCH)
    assert {one.name for one in found} == {"orders", "ord", "*"}
    assert matching_acls(rules, principal="User:b") == []
