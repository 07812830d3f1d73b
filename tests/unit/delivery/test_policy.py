"""Policies: the node's settings below the topic's options below the group's wishes, and the waits they make."""

from __future__ import annotations

import pytest

from goqueue.config import DeliveryConfig
from goqueue.delivery.leases.backoff import backoff_ms
from goqueue.delivery.policy import DeliveryPolicy, Policies, checked_wishes, group_policy, node_policy, topic_policy
from goqueue.errors import InvalidRequest
from goqueue.metadata.settings.topic_config import parse_topic_config


def test_a_topic_overrides_the_node_and_a_group_overrides_the_topic() -> None:
    node = node_policy(DeliveryConfig(visibility_ms=1, retries_max=2, backoff_ms=3))
    topic = topic_policy(node, "t", parse_topic_config({"delivery.max.retries": "5", "message.ttl.ms": "7"}))
    group = group_policy(topic, {"retries_max": 9, "backoff_ms": None})
    assert (node.visibility_ms, node.retries_max, node.ttl_ms) == (1, 2, None)
    assert (topic.visibility_ms, topic.retries_max, topic.ttl_ms) == (1, 5, 7)
    assert (group.retries_max, group.backoff_ms, group.ttl_ms) == (9, 3, 7)


def test_a_policy_is_worked_out_once_and_again_when_settings_change() -> None:
    policies = Policies(DeliveryConfig(retries_max=2))
    before, after = parse_topic_config({}), parse_topic_config({"delivery.max.retries": "5"})

    first = policies.of("t", before, {"backoff_ms": 7})

    assert policies.of("t", before, {"backoff_ms": 7}) is first
    assert (first.retries_max, first.backoff_ms) == (2, 7)
    assert policies.of("t", before, {"backoff_ms": 8}).backoff_ms == 8
    assert policies.of("t", after, {"backoff_ms": 7}).retries_max == 5
    assert policies.of("t.dlq", before, {"backoff_ms": 7}).dead_letters is False


def test_no_more_policies_are_remembered_than_there_is_room_for() -> None:
    policies = Policies(DeliveryConfig())
    config = parse_topic_config({})
    for number in range(3_000):
        assert policies.of(f"t{number}", config, {"retries_max": number}).retries_max == number

    assert len(policies._known) <= Policies._KNOWN_MAX


def test_w18_a_dead_letter_topic_has_no_dead_letters_whatever_anybody_wishes() -> None:
    topic = topic_policy(DeliveryPolicy(), "t.dlq", parse_topic_config({"delivery.dead.letters": "true"}))
    assert not topic.dead_letters
    assert not group_policy(topic, {"dead_letters": True}).dead_letters


@pytest.mark.parametrize(
    "wish",
    [{"nonsense": 1}, {"visibility_ms": -1}, {"retries_max": "3"}, {"retries_max": True}, {"key_ordered": 1}],
)
def test_a_wish_that_cannot_be_granted_names_its_field_and_the_way_out(wish: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        checked_wishes(wish)
    assert refusal.value.field in wish
    assert refusal.value.hint


def test_w17_waits_begin_at_the_base_and_double_up_to_the_maximum() -> None:
    policy = DeliveryPolicy()
    assert [backoff_ms(policy, count) for count in range(1, 9)] == [
        1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
    ]  # fmt: skip
    assert backoff_ms(policy, 10**6) == 60_000


def test_jitter_only_adds_and_no_more_than_its_share() -> None:
    policy = DeliveryPolicy(backoff_jitter=0.5)
    assert backoff_ms(policy, 1, 0.0) == 1_000
    assert backoff_ms(policy, 1, 0.999) == 1_499
