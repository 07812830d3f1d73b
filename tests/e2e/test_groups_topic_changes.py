"""Topics grow, are deleted and made again while groups read them, seen by members over HTTP and in Python."""

from __future__ import annotations

import itertools

import pytest
from tests.e2e.http import Http

from goqueue.client import connect

numbers = itertools.count()
MODES = [{"mode": "stream"}, {"mode": "queue"}, {"mode": "queue", "sharing": "shared"}]


@pytest.fixture
def http(broker):
    return Http(broker.http)


@pytest.fixture
def names(http):
    """Two topics of one partition each, and a group."""
    number = next(numbers)
    first, second = f"changing-{number}-a", f"changing-{number}-b"
    for name in (first, second):
        http.post("/topics", {"name": name, "num_partitions": 1})
    return first, second, f"changing-{number}"


def put(http, topic, partition, value):
    http.post(f"/topics/{topic}/messages", {"value": value, "partition": partition})


class Eager:
    """A member that does what the documentation says: it joins again when it is told to."""

    def __init__(self, http, group, topics, **kind):
        self.http, self.group, self.topics, self.kind = http, group, topics, kind
        self.joined = self._join()

    def _join(self, **more):
        body = {"topics": self.topics, **self.kind, **more}
        return self.http.post(f"/groups/{self.group}/join", body)

    def poll(self):
        """Values of one poll; nothing when it had to join again."""
        body = {key: self.joined[key] for key in ("member_id", "generation")} | {"timeout_ms": 0}
        answer = self.http.ask("POST", f"/groups/{self.group}/poll", body)
        if answer.status == 409:
            assert answer.body["error"]["code"] == "rebalance_in_progress"
            self.joined = self._join(member_id=self.joined["member_id"])
            return []
        assert answer.status == 200, answer
        if self.kind["mode"] == "stream" and answer.body["next_offsets"]:
            # What is not committed comes again after the next join.
            place = {key: body[key] for key in ("member_id", "generation")}
            self.http.post(f"/groups/{self.group}/offsets", place | {"offsets": answer.body["next_offsets"]})
        return [one["value"] for one in answer.body["messages"]]

    def read(self, count):
        values = []
        while len(values) < count:
            values += self.poll()
        return sorted(values)


@pytest.mark.parametrize("kind", MODES)
def test_an_eager_group_reads_added_partitions(http, names, kind):
    topic, _, group = names
    member = Eager(http, group, [topic], **kind)
    http.patch(f"/topics/{topic}", {"num_partitions": 3})
    for partition in range(3):
        put(http, topic, partition, f"p{partition}")

    assert member.read(3) == ["p0", "p1", "p2"]


@pytest.mark.parametrize("kind", MODES)
def test_an_eager_group_reads_on_when_one_of_its_topics_is_deleted(http, names, kind):
    kept, doomed, group = names
    member = Eager(http, group, [kept, doomed], **kind)
    put(http, doomed, 0, "doomed")
    put(http, kept, 0, "first")
    assert member.read(2) == ["doomed", "first"]
    http.delete(f"/topics/{doomed}")
    put(http, kept, 0, "second")
    assert member.read(1) == ["second"]

    newcomer = http.post(f"/groups/{group}-other/join", {"topics": [kept, doomed], **kind})
    assert newcomer["missing_topics"] == [doomed]
    http.post("/topics", {"name": doomed, "num_partitions": 2})
    put(http, doomed, 0, "again-0")
    put(http, doomed, 1, "again-1")
    assert member.read(2) == ["again-0", "again-1"]


@pytest.mark.parametrize("kind", MODES)
def test_a_topic_made_again_with_fewer_partitions_is_read(http, names, kind):
    kept, _, group = names
    shrinking = f"{kept}-shrinking"
    http.post("/topics", {"name": shrinking, "num_partitions": 3})
    member = Eager(http, group, [kept, shrinking], **kind)
    for partition in range(3):
        put(http, shrinking, partition, f"old-{partition}")
    assert member.read(3) == ["old-0", "old-1", "old-2"]
    http.delete(f"/topics/{shrinking}")
    http.post("/topics", {"name": shrinking, "num_partitions": 1})
    put(http, shrinking, 0, "new")
    put(http, kept, 0, "kept")

    assert member.read(2) == ["kept", "new"]


@pytest.mark.parametrize("path", ["join", "join/cooperative"])
def test_a_newcomer_none_of_whose_topics_exists_is_refused(http, names, path):
    status, error = http.refused("POST", f"/groups/{names[2]}/{path}", {"topics": ["misspelt-a", "misspelt-b"]})

    assert (status, error["code"]) == (404, "topic_not_found")


@pytest.mark.parametrize("kind", MODES)
def test_a_cooperative_member_goes_on_when_one_of_its_topics_is_deleted(http, names, kind):
    kept, doomed, group = names
    member = http.post(f"/groups/{group}/join/cooperative", {"topics": [kept, doomed], **kind})
    http.delete(f"/topics/{doomed}")

    for _ in range(3):
        body = {
            "member_id": member["member_id"],
            "generation": member["generation"],
            "owned_partitions": member["partitions"],
        }
        state = http.post(f"/groups/{group}/heartbeat/cooperative", body)
        assert (state["state"] != "pending_revoke", state.get("partitions_to_revoke", [])) == (True, [])
        member |= {"generation": state["generation"]}
    assert state["partitions"] == [{"topic": kept, "partition": 0}]
    http.post(
        f"/groups/{group}/revoke",
        {
            "member_id": member["member_id"],
            "generation": member["generation"],
            "revoked_partitions": [{"topic": doomed, "partition": 0}],
        },
    )


async def test_a_python_consumer_reads_on_when_a_topic_is_deleted_and_from_the_beginning_when_it_is_made_again(
    broker, http, names
):
    kept, doomed, group = names
    revoked = []
    async with (
        connect(f"http://{broker.http}") as client,
        client.consumer(group, [kept, doomed], poll_wait=0.05, on_revoked=revoked.append) as consumer,
    ):
        for number in range(3):
            put(http, doomed, 0, f"old-{number}")
        assert len(await _read(consumer, 3)) == 3
        http.delete(f"/topics/{doomed}")
        put(http, kept, 0, "kept")
        assert await _read(consumer, 1) == ["kept"]
        http.post("/topics", {"name": doomed, "num_partitions": 2})
        for number in range(5):
            put(http, doomed, 0, f"new-{number}")
        put(http, doomed, 1, "new-5")
        # Five messages: a position of the old topic, offset 3, would leave three of them out.
        assert await _read(consumer, 6) == [f"new-{number}" for number in range(6)]
    assert (doomed, 0) in {at for partitions in revoked for at in partitions}


async def test_a_python_queue_member_goes_on_when_one_of_its_topics_is_deleted(broker, http, names):
    kept, doomed, group = names
    async with (
        connect(f"http://{broker.http}") as client,
        client.queue_consumer(group, [kept, doomed]) as queue,
    ):
        http.delete(f"/topics/{doomed}")
        put(http, kept, 0, "kept")
        messages = []
        while not messages:
            messages = await queue.receive(wait=0.1)
        assert [one.text for one in messages] == ["kept"]
        await queue.ack(*messages)


async def _read(consumer, count):
    values = []
    while len(values) < count:
        values += [one.text for one in await consumer.poll(timeout=0.1)]
    return sorted(values)
