"""Shapes of etcd's API, as far as they are used here. Names and numbers are those of etcd's rpc.proto and kv.proto.

They are built in a pool of their own: a program that also has another client of etcd loaded keeps both apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "goqueue.etcd"

# name: field:number:type. `*` repeats, a type that is no scalar is a message from this table.
_SHAPES: Mapping[str, str] = {
    "KeyValue": "key:1:bytes create_revision:2:int64 mod_revision:3:int64 version:4:int64 value:5:bytes lease:6:int64",
    "ResponseHeader": "cluster_id:1:uint64 member_id:2:uint64 revision:3:int64 raft_term:4:uint64",
    "RangeRequest": "key:1:bytes range_end:2:bytes limit:3:int64 revision:4:int64 serializable:7:bool",
    "RangeResponse": "header:1:ResponseHeader kvs:2:*KeyValue more:3:bool count:4:int64",
    "PutRequest": "key:1:bytes value:2:bytes lease:3:int64",
    "DeleteRangeRequest": "key:1:bytes range_end:2:bytes",
    "RequestOp": "request_range:1:RangeRequest request_put:2:PutRequest request_delete_range:3:DeleteRangeRequest",
    "ResponseOp": "response_range:1:RangeResponse",
    # result 0 is EQUAL; target 1 create revision, 2 mod revision, 4 lease.
    "Compare": "result:1:int32 target:2:int32 key:3:bytes create_revision:5:int64 mod_revision:6:int64 lease:8:int64",
    "TxnRequest": "compare:1:*Compare success:2:*RequestOp failure:3:*RequestOp",
    "TxnResponse": "header:1:ResponseHeader succeeded:2:bool responses:3:*ResponseOp",
    "WatchCreateRequest": "key:1:bytes range_end:2:bytes start_revision:3:int64 fragment:8:bool",
    "WatchRequest": "create_request:1:WatchCreateRequest",
    # type 1 is DELETE.
    "Event": "type:1:int32 kv:2:KeyValue",
    "WatchResponse": (
        "header:1:ResponseHeader watch_id:2:int64 created:3:bool canceled:4:bool compact_revision:5:int64 "
        "cancel_reason:6:string fragment:7:bool events:11:*Event"
    ),
    "LeaseGrantRequest": "TTL:1:int64 ID:2:int64",
    "LeaseGrantResponse": "header:1:ResponseHeader ID:2:int64 TTL:3:int64 error:4:string",
    "LeaseKeepAliveRequest": "ID:1:int64",
    "LeaseKeepAliveResponse": "header:1:ResponseHeader ID:2:int64 TTL:3:int64",
    "LeaseRevokeRequest": "ID:1:int64",
    "AuthenticateRequest": "name:1:string password:2:string",
    "AuthenticateResponse": "header:1:ResponseHeader token:2:string",
    "StatusResponse": (
        "header:1:ResponseHeader version:2:string dbSize:3:int64 leader:4:uint64 errors:8:*string dbSizeInUse:9:int64 "
        "isLearner:10:bool"
    ),
    "AlarmRequest": "action:1:int32 memberID:2:uint64 alarm:3:int32",
    "AlarmMember": "memberID:1:uint64 alarm:2:int32",
    "AlarmResponse": "header:1:ResponseHeader alarms:2:*AlarmMember",
    "Member": "ID:1:uint64 name:2:string peerURLs:3:*string clientURLs:4:*string isLearner:5:bool",
    "MemberAddRequest": "peerURLs:1:*string isLearner:2:bool",
    "MemberRequest": "ID:1:uint64",
    "MemberListResponse": "header:1:ResponseHeader members:2:*Member",
    "Nothing": "header:1:ResponseHeader",
}

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bytes": _Field.TYPE_BYTES,
    "string": _Field.TYPE_STRING,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
}
# Compares state which number they mean by which one is there, so that 0 is sent as well.
_ONE_OF = {"Compare": ("create_revision", "mod_revision", "lease")}


def _classes() -> Mapping[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="goqueue/etcd.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _SHAPES.items():
        message = file.message_type.add(name=name)
        if name in _ONE_OF:
            message.oneof_decl.add(name="number")
        for text in fields.split():
            field, number, kind = text.split(":")
            added = message.field.add(name=field, number=int(number), label=_Field.LABEL_OPTIONAL)
            if kind.startswith("*"):
                added.label, kind = _Field.LABEL_REPEATED, kind[1:]
            if kind in _SCALARS:
                added.type = _SCALARS[kind]
            else:
                added.type, added.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            if field in _ONE_OF.get(name, ()):
                added.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _SHAPES}


# The class of each message, by its name.
MESSAGES = _classes()


def message(name: str, /, **fields: object) -> Any:
    """A message of that name."""
    return MESSAGES[name](**fields)
