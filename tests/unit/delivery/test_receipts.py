"""Receipts: parseable whatever the topic's name, and told apart from what was never given out."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.delivery.leases.receipts import is_ours, parse_nonce, receipt_parts, split_place, split_receipt
from goqueue.errors import InvalidReceipt

TOPIC_ID = UUID(int=3)


@given(
    topic=st.from_regex(r"[A-Za-z0-9._:-]{1,30}", fullmatch=True),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**62),
    count=st.integers(1, 10_000),
    lease_id=st.integers(1, 2**63),
)
def test_what_was_put_in_comes_out(topic: str, partition: int, offset: int, count: int, lease_id: int) -> None:
    before, behind = receipt_parts(topic, partition, TOPIC_ID, lease_id, count)
    receipt = f"{before}{offset}{behind}"
    place, *numbers, nonce = split_receipt(receipt)
    assert (split_place(place, receipt), numbers) == ((topic, partition), [offset, count])
    parsed = parse_nonce(nonce, receipt)
    assert parsed.lease_id == lease_id
    assert is_ours(parsed, TOPIC_ID, partition)
    assert not is_ours(parsed, UUID(int=4), partition)


def test_a_receipt_of_an_earlier_version_means_the_same() -> None:
    before, behind = receipt_parts("t", 0, TOPIC_ID, 7, 1)
    count, nonce = behind.removeprefix(":").split(":")
    *_, former = split_receipt(f"{before}3:{count}:2f.{nonce}")
    assert parse_nonce(former, "") == parse_nonce(nonce, "")


def parse(receipt: str) -> None:
    place, _, _, nonce = split_receipt(receipt)
    split_place(place, receipt)
    parse_nonce(nonce, receipt)


@pytest.mark.parametrize(
    "receipt",
    [
        "",
        ":",
        "t:0:1:1",
        "t:0:x:1:0.0",
        "t:0:1:-1:0.0",
        "t:0:+1:1:0.0",
        "t:0:1_0:1:0.0",
        "t:0:٣:1:0.0",
        "t:0: 1:1:0.0",
        "t:0:1:1:0.00000000000000010000000G",
    ],
)
def test_what_is_no_receipt_is_refused(receipt: str) -> None:
    with pytest.raises(InvalidReceipt) as refusal:
        parse(receipt)
    assert refusal.value.hint


@given(st.text(max_size=60))
def test_any_text_is_a_receipt_or_refused_as_none(text: str) -> None:
    with suppress(InvalidReceipt):
        parse(text)
