"""What a schema does not allow is refused over gRPC too."""

from __future__ import annotations

import json

import pytest
from google.protobuf import duration_pb2
from tests.e2e.grpc.api import Record, Refused
from tests.e2e.http import Http


def test_a_bad_message_is_refused(api, broker):
    http = Http(broker.http)
    config = {"goqueue.schema.validation": "full", "goqueue.schema.missing": "latest"}
    http.post("/topics", {"name": "checked", "num_partitions": 1, "config": config})
    http.post("/subjects/checked-value/versions", {"schemaType": "JSON", "schema": json.dumps({"type": "integer"})})

    api.call("PublishService.Publish", topic="checked", record=Record(value=b"1"))
    for record in (Record(value=b"x"), Record(value=b"x", delay=duration_pb2.Duration(seconds=1))):
        with pytest.raises(Refused) as refused:
            api.call("PublishService.Publish", topic="checked", record=record)
        assert refused.value.code == "INVALID_ARGUMENT"
    records = [Record(value=b"2"), Record(value=b"x")]
    outcomes = api.call("PublishService.PublishBatch", topic="checked", records=records).results
    assert [one.HasField("error") for one in outcomes] == [False, True]

    assert [one["value"] for one in http.get("/topics/checked/partitions/0/messages")["messages"]] == ["1", "2"]
