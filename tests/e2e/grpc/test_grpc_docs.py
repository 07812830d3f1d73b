"""The page on gRPC is run as it stands."""

from __future__ import annotations

from tests.e2e.process import BrokerProcess
from tests.e2e.test_docs import BLOCK, ROOT, run


def test_the_page_on_grpc_works_from_top_to_bottom(broker: BrokerProcess) -> None:
    page = (ROOT / "docs" / "howto" / "grpc.md").read_text()

    outputs = [run(language, code, broker) for language, code in BLOCK.findall(page)]

    shown = "\n".join(outputs)
    expected = (
        "received hello",
        "stored in partition",
        "read b'order 1'",
        "stored 1000",
        "worked on 10",
        "INVALID_ARGUMENT",
        "field: name",
    )
    assert [text for text in expected if text not in shown] == [], shown
