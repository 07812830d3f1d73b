"""Settlements of whole leases are shown to observers receipt by receipt."""

from __future__ import annotations

from goqueue.delivery.settlement.settler import LeasedOffsets, LeaseSettled, one_by_one
from goqueue.delivery.values import Action, Settlement
from goqueue.errors import ReceiptExpired, ReceiptNotFound


def test_every_receipt_has_its_settlement_and_its_outcome():
    leases = [LeasedOffsets("a:b:1", 2, "1.aa", [4, 5]), LeasedOffsets("t:0", 1, "1.bb", [9])]
    results = [LeaseSettled("requeued", 70, None, [5]), LeaseSettled(error=ReceiptNotFound("t:0:9:1:1.bb"))]

    asked, settled = one_by_one(leases, results, Settlement("", Action.NACK, 30, "why"))

    assert [one.receipt for one in asked] == ["a:b:1:4:2:1.aa", "a:b:1:5:2:1.aa", "t:0:9:1:1.bb"]
    assert {(one.action, one.delay_ms, one.reason) for one in asked} == {(Action.NACK, 30, "why")}
    assert (settled[0].topic, settled[0].partition, settled[0].offset, settled[0].next_visible_ms) == ("a:b", 1, 4, 70)
    assert [type(one.error) for one in settled] == [type(None), ReceiptExpired, ReceiptNotFound]
