"""Groups over HTTP: both protocols, polls, offsets, lag and resets."""

from __future__ import annotations

import itertools
import socket
import threading

import pytest
from tests.e2e.http import Http

numbers = itertools.count()


@pytest.fixture
def http(broker):
    return Http(broker.http)


@pytest.fixture
def topic(http):
    name = f"grouped-{next(numbers)}"
    http.post("/topics", {"name": name, "num_partitions": 4})
    return name


@pytest.fixture
def group(topic):
    return f"group-of-{topic}"


def join(http, group, topic, **fields):
    return http.post(f"/groups/{group}/join", {"client_id": "test", "topics": [topic], "mode": "stream", **fields})


def join_cooperative(http, group, topic, **fields):
    return http.post(
        f"/groups/{group}/join/cooperative", {"client_id": "test", "topics": [topic], "mode": "stream", **fields}
    )


def beat(http, group, member, owned=None):
    body = {"member_id": member["member_id"], "generation": member["generation"]}
    if owned is not None:
        body["owned_partitions"] = owned
    return http.post(f"/groups/{group}/heartbeat/cooperative", body)


def _of(member):
    return {"member_id": member["member_id"], "generation": member["generation"]}


def owned_by(member):
    return {one["partition"] for one in member["partitions"]}


class TestEagerMembers:
    def test_the_first_member_owns_everything(self, http, group, topic):
        member = join(http, group, topic)

        assert member["member_id"].startswith("test-")
        assert member["leader_id"] == member["member_id"]
        assert owned_by(member) == {0, 1, 2, 3}

    def test_two_members_share_by_range_after_both_have_joined(self, http, group, topic):
        first = join(http, group, topic)
        seconds = []
        joining = threading.Thread(target=lambda: seconds.append(join(http, group, topic)))
        joining.start()
        while http.get(f"/groups/{group}")["state"] != "PreparingRebalance":
            pass

        status, error = http.refused(
            "POST", f"/groups/{group}/heartbeat", {"member_id": first["member_id"], "generation": first["generation"]}
        )
        assert (status, error["code"]) == (409, "rebalance_in_progress")
        first = join(http, group, topic, member_id=first["member_id"])
        joining.join()

        assert owned_by(first) | owned_by(seconds[0]) == {0, 1, 2, 3}
        assert not owned_by(first) & owned_by(seconds[0])
        assert first["generation"] == seconds[0]["generation"]

    def test_an_old_generation_is_refused_everywhere(self, http, group, topic):
        member = join(http, group, topic)
        stale = {"member_id": member["member_id"], "generation": member["generation"] - 1}
        offsets = {"offsets": {topic: {"0": 0}}}
        query = f"member_id={stale['member_id']}&generation={stale['generation']}"

        assert http.refused("POST", f"/groups/{group}/heartbeat", stale)[0] == 409
        assert http.refused("POST", f"/groups/{group}/offsets", {**stale, **offsets})[0] == 409
        assert http.refused("GET", f"/groups/{group}/poll?{query}")[0] == 409

    def test_a_member_that_left_is_unknown(self, http, group, topic):
        member = join(http, group, topic)
        http.post(f"/groups/{group}/leave", {"member_id": member["member_id"]})

        status, _ = http.refused(
            "POST", f"/groups/{group}/heartbeat", {"member_id": member["member_id"], "generation": 1}
        )
        assert status == 404


class TestCooperativeMembers:
    def test_partitions_move_only_after_their_owner_gave_them_up(self, http, group, topic):
        first = join_cooperative(http, group, topic)
        assert owned_by(first) == {0, 1, 2, 3}
        second = join_cooperative(http, group, topic)
        assert owned_by(second) == set()

        told = beat(http, group, first, first["partitions"])
        assert told["rebalance_required"]
        assert len(told["partitions_to_revoke"]) == 2
        assert owned_by(beat(http, group, second)) == set()

        revoked = {
            "member_id": first["member_id"],
            "generation": told["generation"],
            "revoked_partitions": told["partitions_to_revoke"],
        }
        assert http.post(f"/groups/{group}/revoke", revoked)["pending_count"] == 0
        second = beat(http, group, {**second, "generation": beat_generation(http, group, second)})

        given_up = {one["partition"] for one in told["partitions_to_revoke"]}
        assert owned_by(second) == given_up

    def test_a_pattern_subscribes_to_every_topic_that_matches(self, http, group, topic):
        http.post("/topics", {"name": f"{topic}-more", "num_partitions": 1})

        member = http.post(f"/groups/{group}/join/cooperative", {"pattern": f"{topic}.*", "mode": "stream"})

        assert {one["topic"] for one in member["partitions"]} == {topic, f"{topic}-more"}

    @pytest.mark.parametrize("assignor", ["sticky", "uniform", "range", "roundrobin"])
    def test_every_assignor_is_taken_by_its_name(self, http, group, topic, assignor):
        joined = http.post(f"/groups/{group}/join/cooperative", {"topics": [topic], "assignor": assignor})
        assert joined["member_id"]

    def test_an_unknown_assignor_is_refused(self, http, group, topic):
        body = {"topics": [topic], "assignor": "by-height", "mode": "stream"}

        assert http.refused("POST", f"/groups/{group}/join/cooperative", body)[1]["code"] == "unsupported_assignor"

    def test_an_eager_join_of_a_cooperative_group_names_the_protocol(self, http, group, topic):
        join_cooperative(http, group, topic)

        status, error = http.refused(
            "POST", f"/groups/{group}/join", {"client_id": "c", "topics": [topic], "mode": "stream"}
        )

        assert status == 409
        assert "protocol" in error["code"]


def beat_generation(http, group, member):
    """The epoch that the member has now, as the group tells it."""
    return beat(http, group, member)["generation"]


class TestPolling:
    def test_a_poll_reads_on_where_the_last_one_ended(self, http, group, topic):
        member = join(http, group, topic)
        query = f"member_id={member['member_id']}&generation={member['generation']}&timeout=5s"
        http.publish(topic, *range(10))

        first = http.get(f"/groups/{group}/poll?{query}")["messages"]
        http.publish(topic, 10)
        second = http.get(f"/groups/{group}/poll?{query}")["messages"]

        assert sorted(int(message["value"]) for message in first) == list(range(10))
        assert [message["value"] for message in second] == ["10"]

    def test_an_answer_that_nobody_read_can_be_asked_for_again(self, http, broker, group, topic):
        http.publish(topic, "a", "b", partition=0)
        member = join(http, group, topic)
        path = f"/groups/{group}/poll?member_id={member['member_id']}&generation={member['generation']}&timeout=2s"
        host, port = broker.http.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as gone:
            gone.sendall(f"GET {path} HTTP/1.1\r\nHost: {broker.http}\r\n\r\n".encode())

        again = http.get(f"{path}&again=true")
        assert [one["value"] for one in again["messages"]] == ["a", "b"]

    def test_to_read_again_is_for_those_whose_place_the_broker_keeps(self, http, group, topic):
        member = join(http, group, topic)
        body = {**_of(member), "positions": {topic: {"0": 0}}, "again": True}
        assert http.refused("POST", f"/groups/{group}/poll", body)[1]["field"] == "again"

    def test_a_member_that_joins_again_begins_at_what_was_committed(self, http, group, topic):
        """Its last commit may have been refused for its old generation: then what it had read must come again."""
        member = join(http, group, topic)
        http.publish(topic, "a", "b", partition=0)
        query = f"/groups/{group}/poll?member_id={member['member_id']}&timeout=5s"
        first = http.get(f"{query}&generation={member['generation']}")
        http.post(f"/groups/{group}/offsets", {"offsets": {topic: {"0": 1}}, **_of(member)})
        member = join(http, group, topic, member_id=member["member_id"])

        again = http.get(f"{query}&generation={member['generation']}")

        assert [message["value"] for message in first["messages"]] == ["a", "b"]
        assert [message["value"] for message in again["messages"]] == ["b"]

    def test_a_new_member_begins_at_what_was_committed(self, http, group, topic):
        http.publish(topic, *range(6), partition=0)
        member = join(http, group, topic)
        identity = {"member_id": member["member_id"], "generation": member["generation"]}
        http.post(f"/groups/{group}/offsets", {**identity, "offsets": {topic: {"0": 4}}})
        http.post(f"/groups/{group}/leave", {"member_id": member["member_id"]})

        member = join(http, group, topic)
        identity = {"member_id": member["member_id"], "generation": member["generation"]}
        reply = http.post(f"/groups/{group}/poll", {**identity, "timeout_ms": 5000})

        assert [message["offset"] for message in reply["messages"]] == [4, 5]

    def test_an_empty_poll_comes_back_when_its_time_is_up(self, http, group, topic):
        member = join_cooperative(http, group, topic)
        identity = {"member_id": member["member_id"], "generation": member["generation"]}

        assert http.post(f"/groups/{group}/poll", {**identity, "timeout_ms": 50})["messages"] == []


class TestOffsets:
    def test_lag_is_shown_in_messages_and_in_seconds(self, http, group, topic):
        long_ago = 1_700_000_000_000
        http.post(
            f"/topics/{topic}/messages",
            {"messages": [{"value": n, "partition": 0, "timestamp": long_ago} for n in range(5)]},
        )
        http.post(f"/groups/{group}/offsets", {"offsets": {topic: {"0": 2}}})

        found = http.get(f"/groups/{group}/offsets")

        assert found["total_lag"] == 3
        row = found["topics"][topic]["0"]
        assert (row["offset"], row["end"], row["lag"]) == (2, 5, 3)
        assert row["lag_seconds"] > 1_000_000

    @pytest.mark.parametrize(
        ("target", "expected"),
        [
            ("earliest", 0),
            ("latest", 10),
            ({"offset": 3}, 3),
            ({"shift": -2}, 5),
            ({"timestamp": 1_700_000_000_004}, 4),
        ],
    )
    def test_offsets_move_where_they_are_told(self, http, group, topic, target, expected):
        rows = [{"value": n, "partition": 0, "timestamp": 1_700_000_000_000 + n} for n in range(10)]
        http.post(f"/topics/{topic}/messages", {"messages": rows})
        http.post(f"/groups/{group}/offsets", {"offsets": {topic: {"0": 7}}})
        request = {"topic": topic, "partitions": [0], "to": target}

        shown = http.post(f"/groups/{group}/offsets/reset", {**request, "dry_run": True})
        assert shown["changes"] == [{"topic": topic, "partition": 0, "from": 7, "to": expected}]
        assert http.get(f"/groups/{group}/offsets")["topics"][topic]["0"]["offset"] == 7

        http.post(f"/groups/{group}/offsets/reset", request)
        assert http.get(f"/groups/{group}/offsets")["topics"][topic]["0"]["offset"] == expected

    def test_a_group_with_members_is_not_moved_behind_their_backs(self, http, group, topic):
        join_cooperative(http, group, topic)

        status, error = http.refused("POST", f"/groups/{group}/offsets/reset", {"topic": topic, "to": "latest"})

        assert (status, error["code"]) == (409, "group_not_empty")

    def test_a_group_is_deleted_with_its_offsets(self, http, group, topic):
        http.post(f"/groups/{group}/offsets", {"offsets": {topic: {"0": 0}}})
        assert group in [row["id"] for row in http.get("/groups")["groups"]]

        http.delete(f"/groups/{group}")

        assert http.get(f"/groups/{group}/offsets")["topics"] == {}
        assert http.refused("GET", f"/groups/{group}")[0] == 404

    def test_rebalances_are_counted(self, http, group, topic):
        join_cooperative(http, group, topic)

        stats = http.get(f"/groups/{group}/rebalance/stats")
        assert stats["total_rebalances"] >= 1
        assert stats["rebalances_by_reason"]["member_joined"] >= 1
        assert http.get("/rebalance/stats")["total_rebalances"] >= stats["total_rebalances"]


def test_a_commit_to_a_group_that_was_joined_as_a_queue_is_told_which_mode_has_offsets(http):
    http.post("/topics", {"name": "joined-as-queue", "num_partitions": 1})
    http.publish("joined-as-queue", "a")
    member = http.post("/groups/by-default/join", {"topics": ["joined-as-queue"]})
    status, error = http.refused(
        "POST",
        "/groups/by-default/offsets",
        {
            "member_id": member["member_id"],
            "generation": member["generation"],
            "offsets": {"joined-as-queue": {"0": 1}},
        },
    )
    assert (status, '"mode": "stream"' in error["hint"]) == (409, True)
