"""Any bytes survive the way through JSON."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.producing.outgoing import encode_message
from goqueue.client.types import WireMessage, decode_message

optional_bytes = st.none() | st.binary(max_size=40)


@given(
    value=optional_bytes, key=optional_bytes, headers=st.dictionaries(st.text(max_size=5), optional_bytes, max_size=3)
)
def test_every_key_value_and_header_comes_back_as_it_was_sent(value, key, headers):
    sent = encode_message(value, key, headers)
    over_the_wire = msgspec.json.decode(
        msgspec.json.encode({"topic": "t", "partition": 0, "offset": 1, "timestamp": 2, **msgspec.to_builtins(sent)})
    )

    message = decode_message(msgspec.convert(over_the_wire, WireMessage))

    assert (message.value, message.key, dict(message.headers)) == (value, key, headers)


def test_text_stays_readable_on_the_wire():
    assert msgspec.to_builtins(encode_message(b"hello", b"k", {})) == {"value": "hello", "key": "k"}
