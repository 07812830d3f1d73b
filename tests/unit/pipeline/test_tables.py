"""Topics as tables of SQL: which name each of them gets."""

from __future__ import annotations

import pytest

from goqueue.errors import InvalidRequest
from goqueue.pipeline.tables import table_names, tables


def test_characters_that_sql_does_not_take_become_underscores() -> None:
    assert table_names(["shop.orders-v2", "towns"]) == {"shop_orders_v2": "shop.orders-v2", "towns": "towns"}


@pytest.mark.parametrize("other", ["shop_orders", "Shop.Orders"])
def test_two_topics_are_not_one_table(other: str) -> None:
    with pytest.raises(InvalidRequest, match=r"would both be the table .*: name those you need, as in topics="):
        table_names(["shop.orders", other])


@pytest.mark.parametrize("field", ["topics", "as_table"])
def test_a_name_is_not_taken_for_a_list_of_letters(field: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"{field}='orders' is a text: give a list of names, as in \['orders'\]"):
        tables(None, "127.0.0.1:9", **{field: "orders"})  # type: ignore[arg-type]


def test_a_password_is_no_option_of_a_table_since_options_are_noted_at_its_columns() -> None:
    pytest.importorskip("pyspark", reason="needs goqueue[spark]")
    from goqueue.pipeline.errors import BadOption
    from goqueue.pipeline.sql_tables import with_options

    given = {"provider": "goqueue", "subscribe": "orders", "kafka.sasl.password": "s3cret"}
    with pytest.raises(BadOption, match="would be kept in clear with the table") as refused:
        with_options({"value": "binary"}, given)
    assert "s3cret" not in str(refused.value)
    with pytest.raises(BadOption, match="GOQUEUE_KAFKA_CONFIG"):
        tables(None, "127.0.0.1:9", options={"kafka.sasl.password": "s3cret"})  # type: ignore[arg-type]
