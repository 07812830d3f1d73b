"""Frames of a queue connection: what the broker writes is what the client reads, and receipts keep their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.queues.frames import Leases, MessagesReply, Outcome, SettledReply, decode_reply, encode, messages_of
from goqueue.delivery.settlement.settler import LeasedOffsets, LeaseSettled
from goqueue.delivery.values import Action, Delivery
from goqueue.errors import InvalidRequest
from goqueue.servers.http.queue_frames.frames import SettleFrame, decode_request, encode_messages, encode_settled

NONCES = ("1.00aa", "2.00bb")


def delivery(offset: int, nonce: str, count: int, key: bytes | None = None, value: bytes | None = b"v") -> Delivery:
    headers = (("h", None), ("h", b"\xff"))
    return Delivery("t", 3, offset, 5, key, value, headers, 1, f"t:3:{offset}:{count}:{nonce}", count, 900, 800)


deliveries = st.lists(
    st.builds(
        delivery,
        st.integers(0, 2**63 - 1),
        st.sampled_from(NONCES),
        st.integers(1, 9),
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=5),
    ),
    max_size=20,
)


@given(deliveries)
def test_messages_arrive_as_they_were_delivered(sent):
    reply = decode_reply(encode_messages(7, 4, sent))

    assert isinstance(reply, MessagesReply)
    assert (reply.id, reply.generation) == (7, 4)
    found = messages_of(reply, "g")
    assert [(one.offset, one.key, one.value, one.headers, one.receipt, one.delivery_count) for one in found] == [
        (one.offset, one.key, one.value, one.headers, one.receipt, one.delivery_count) for one in sent
    ]
    assert {one.priority for one in found} <= {"high"}


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from(NONCES)), min_size=1, max_size=20))
def test_every_receipt_has_its_own_result(pairs):
    receipts = [f"a:b:1:{offset}:2:{nonce}" for offset, nonce in pairs]
    leases = Leases(receipts)
    request = decode_request(encode(("settle", 1, "ack", leases.rows())))

    assert isinstance(request, SettleFrame)
    assert request.action is Action.ACK
    outcomes = [
        LeaseSettled("acked") if one.nonce == NONCES[0] else LeaseSettled("acked", None, None, [7])
        for one in request.leases
    ]
    error = {"code": "receipt_expired", "message": f"receipt 'a:b:1:7:2:{NONCES[1]}' is no longer good"}
    rows = [(one, error if one.refused else None, 410 if one.refused else 200) for one in outcomes]
    reply = decode_reply(encode_settled(1, rows))
    assert isinstance(reply, SettledReply)
    results = leases.results(reply.outcomes, is_extension=False)
    assert [one.receipt for one in results] == receipts
    for (offset, nonce), one in zip(pairs, results, strict=True):
        assert one.success == (nonce == NONCES[0] or offset != 7)
        if one.success:
            assert (one.topic, one.partition, one.offset, one.delivery_count) == ("a:b", 1, offset, 2)
        else:
            assert one.receipt in one.error.message


def test_a_lease_that_is_refused_whole_names_its_error_for_all():
    leases = Leases(["t:0:1:1:1.aa", "t:0:2:1:1.aa"])

    results = leases.results(
        [Outcome("", None, None, [], {"code": "not_found", "message": "gone"}, 404)], is_extension=False
    )

    assert [(one.success, one.status, one.error.message) for one in results] == [(False, 404, "gone")] * 2


@pytest.mark.parametrize("receipt", ["", "nonsense", "a:b:c:d", "t:0:x:1:1.aa"])
def test_what_is_no_receipt_is_told(receipt):
    with pytest.raises(ValueError, match=r"unpack|int\(\)"):
        Leases([receipt])


@pytest.mark.parametrize("frame", [b"", b"\xc1", encode(["receive", 1]), encode(["dance", 1]), encode({"id": 1})])
def test_a_frame_that_is_not_valid_is_refused(frame):
    with pytest.raises(InvalidRequest, match="the frame is not valid"):
        decode_request(frame)


def test_a_lease_is_read_as_a_tuple():
    request = decode_request(encode(("settle", 1, "nack", [("t:0", 1, "1.aa", [4, 5])], True, 250, "why")))

    assert isinstance(request, SettleFrame)
    assert (request.leases, request.durable, request.delay_ms, request.error) == (
        [LeasedOffsets("t:0", 1, "1.aa", [4, 5])],
        True,
        250,
        "why",
    )
