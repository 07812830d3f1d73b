"""Confluent's own registry client and serializers against the registry, at both of its base URLs."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

USER = '{"type":"record","name":"User","namespace":"shop","fields":[{"name":"name","type":"string"}]}'
USER_2 = (
    '{"type":"record","name":"User","namespace":"shop","fields":[{"name":"name","type":"string"},'
    '{"name":"age","type":"int","default":0}]}'
)
ORDER = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'


@pytest.fixture(params=["", "/schemas"], ids=["root", "schemas"])
def registry(request, broker):
    client = SchemaRegistryClient({"url": f"http://{broker.http}{request.param}", "max.retries": 0})
    client.prefix = request.param.strip("/") or "root"
    yield client
    client.__exit__(None, None, None)


def refusal(call, *arguments, **more) -> tuple[int, int]:
    with pytest.raises(SchemaRegistryError) as raised:
        call(*arguments, **more)
    return raised.value.http_status_code, raised.value.error_code


def round_trip(broker, topic: str, value: bytes, headers=None):
    producer = Producer({"bootstrap.servers": broker.kafka})
    failures: list[object] = []
    producer.produce(topic, value, headers=headers, on_delivery=lambda error, _: error and failures.append(error))
    producer.flush(20)
    assert not failures
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        for _ in range(200):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                return message
    finally:
        consumer.close()
    raise AssertionError("no message came")


def test_avro_values_travel_with_their_schema(registry, broker):
    topic = f"avro-{registry.prefix}"
    context = SerializationContext(topic, MessageField.VALUE)
    encoded = AvroSerializer(registry, USER)({"name": "ada"}, context)
    message = round_trip(broker, topic, encoded)

    assert AvroDeserializer(registry)(message.value(), context) == {"name": "ada"}
    assert registry.get_latest_version(f"{topic}-value").version == 1


def test_json_values_travel_with_their_schema(registry, broker):
    topic = f"json-{registry.prefix}"
    context = SerializationContext(topic, MessageField.VALUE)
    encoded = JSONSerializer(ORDER, registry)({"id": 7}, context)
    message = round_trip(broker, topic, encoded)

    assert JSONDeserializer(None, schema_registry_client=registry)(message.value(), context) == {"id": 7}
    assert registry.get_latest_version(f"{topic}-value").schema.schema_type == "JSON"


def test_a_schema_id_may_travel_in_a_header(registry, broker):
    topic = f"guid-{registry.prefix}"
    headers: list[tuple[str, bytes]] = []
    context = SerializationContext(topic, MessageField.VALUE, headers)
    settings = {"schema.id.serializer": header_schema_id_serializer}
    encoded = JSONSerializer(ORDER, registry, conf=settings)({"id": 8}, context)
    message = round_trip(broker, topic, encoded, headers=headers)

    read_context = SerializationContext(topic, MessageField.VALUE, message.headers())
    registry.clear_caches()
    assert JSONDeserializer(None, schema_registry_client=registry)(message.value(), read_context) == {"id": 8}


def message_class(name: str):
    """A class of a message, as generated code would bring it, with an import of its own."""
    pool = descriptor_pool.DescriptorPool()
    city = descriptor_pb2.FileDescriptorProto(name=f"{name}/city.proto", package=name, syntax="proto3")
    field = city.message_type.add(name="City").field.add(name="name", number=1)
    field.type, field.label = field.TYPE_STRING, field.LABEL_OPTIONAL
    user = descriptor_pb2.FileDescriptorProto(
        name=f"{name}/user.proto", package=name, syntax="proto3", dependency=[city.name]
    )
    user.message_type.add(name="Other")
    fields = user.message_type.add(name="User").field
    first = fields.add(name="user_name", number=1)
    first.type, first.label = first.TYPE_STRING, first.LABEL_OPTIONAL
    second = fields.add(name="home", number=2, type_name=f".{name}.City")
    second.type, second.label = second.TYPE_MESSAGE, second.LABEL_OPTIONAL
    pool.Add(city)
    pool.Add(user)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{name}.User"))


def test_protobuf_values_travel_with_their_schema_and_its_import(registry, broker):
    topic = f"protobuf-{registry.prefix}"
    user = message_class(f"p{registry.prefix}")
    context = SerializationContext(topic, MessageField.VALUE)
    value = user(user_name="ada")
    value.home.name = "London"
    encoded = ProtobufSerializer(user, registry, {"use.deprecated.format": False})(value, context)
    message = round_trip(broker, topic, encoded)

    decoded = ProtobufDeserializer(user, {"use.deprecated.format": False}, registry)(message.value(), context)
    assert (decoded.user_name, decoded.home.name) == ("ada", "London")
    shown = registry.get_latest_version(f"{topic}-value")
    assert "message User" in shown.schema.schema_str
    assert [one.name for one in shown.schema.references] == [f"p{registry.prefix}/city.proto"]
    again = registry.register_schema_full_response(f"{topic}-again", shown.schema)
    assert again.schema_id == shown.schema_id, "text and descriptor are the same schema"


def test_versions_ids_and_deletes_follow_the_rules(registry):
    subject = f"rules/{registry.prefix} ä"
    first = registry.register_schema(subject, Schema(USER, "AVRO"))
    assert registry.register_schema(subject, Schema(USER.replace(",", ", "), "AVRO")) == first
    second = registry.register_schema(subject, Schema(USER_2, "AVRO"))
    assert second > first
    assert subject in registry.get_subjects()
    assert registry.get_versions(subject) == [1, 2]
    assert registry.get_version(subject, 1).schema_id == first
    assert registry.lookup_schema(subject, Schema(USER_2, "AVRO")).version == 2
    assert subject in registry.get_subjects_by_schema_id(first)
    assert (subject, 2) in [(one.subject, one.version) for one in registry.get_schema_versions(second)]

    assert registry.delete_version(subject, 2) == 2
    registry.clear_caches()
    assert refusal(registry.delete_version, subject, 2) == (404, 40406)
    assert refusal(registry.delete_version, subject, 1, permanent=True) == (404, 40407)
    assert registry.get_versions(subject) == [1]
    assert registry.get_versions(subject, deleted=True) == [1, 2]
    assert refusal(registry.get_version, subject, 2) == (404, 40402)
    assert registry.delete_version(subject, 2, permanent=True) == 2
    registry.clear_caches()
    third = registry.register_schema(subject, Schema(USER_2, "AVRO"))
    assert registry.get_latest_version(subject).version == 3, "a version is never used again"
    assert third != second or registry.prefix == "schemas", "an id is never used again"
    assert refusal(registry.delete_subject, subject, permanent=True) == (404, 40405)
    assert registry.delete_subject(subject) == [1, 3]
    registry.clear_caches()
    assert refusal(registry.delete_subject, subject) == (404, 40404)
    assert refusal(registry.get_versions, subject) == (404, 40401)
    assert registry.delete_subject(subject, permanent=True) == [1, 3]
    assert refusal(registry.delete_subject, subject) == (404, 40401)


def test_incompatible_schemas_are_refused_and_the_reasons_are_told(registry, broker):
    subject = f"compat-{registry.prefix}"
    registry.register_schema(subject, Schema(USER, "AVRO"))
    bad = Schema(USER.replace('"string"', '"int"'), "AVRO")
    assert refusal(registry.register_schema, subject, bad) == (409, 409)
    assert registry.test_compatibility(subject, bad) is False
    assert registry.test_compatibility(subject, Schema(USER_2, "AVRO")) is True
    assert registry.test_compatibility_all_versions(subject, bad) is False
    assert refusal(registry.register_schema, subject, Schema('{"type":"recor"}', "AVRO")) == (422, 42201)
    assert registry.set_compatibility(subject, "NONE") == {"compatibility": "NONE", "compatibilityLevel": "NONE"}
    assert registry.get_compatibility(subject) == "NONE"
    registry.register_schema(subject, bad)
    assert registry.get_compatibility() == "BACKWARD"
    assert refusal(registry.get_compatibility, "nobody") == (404, 40408)
    assert refusal(registry.set_compatibility, subject, "SIDEWAYS") == (422, 42203)
    assert registry.delete_config(subject).compatibility == "NONE"
    registry.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.FULL_TRANSITIVE))
    assert registry.get_config(subject).compatibility_level == "FULL_TRANSITIVE"


def test_references_are_resolved_and_protected(registry):
    subject, address = f"person-{registry.prefix}", f"address-{registry.prefix}"
    registry.register_schema(address, Schema('{"type":"object","properties":{"zip":{"type":"string"}}}', "JSON"))
    person = Schema(
        '{"type":"object","properties":{"home":{"$ref":"address.json"}}}',
        "JSON",
        references=[SchemaReference("address.json", address, 1)],
    )
    number = registry.register_schema(subject, person)
    assert registry.get_referenced_by(address, 1) == [number]
    assert refusal(registry.delete_version, address, 1) == (422, 42206)
    lost = Schema('{"$ref":"nowhere.json"}', "JSON")
    assert refusal(registry.register_schema, subject, lost) == (422, 42201)


def test_metadata_rules_and_guids_come_back_as_they_were(registry):
    subject = f"meta-{registry.prefix}"
    rules = RuleSet(
        [],
        [Rule("check", "doc", RuleKind.CONDITION, RuleMode.WRITE, "CEL", [], None, "x > 0", None, "ERROR", False)],
    )
    metadata = Metadata(None, MetadataProperties({"owner": subject}), None)
    schema = Schema(ORDER, "JSON", [], metadata, rules)
    registered = registry.register_schema_full_response(subject, schema)
    registry.clear_caches()
    found = registry.get_latest_with_metadata(subject, {"owner": subject})
    assert found.schema.metadata.properties.properties == {"owner": subject}
    assert found.schema.rule_set.domain_rules[0].expr == "x > 0"
    assert registry.get_schema_by_guid(registered.guid).schema_str == ORDER
    assert refusal(registry.get_latest_with_metadata, subject, {"owner": "nobody"}) == (404, 40403)


def test_modes_and_contexts(registry):
    subject = f":.team-{registry.prefix}:orders"
    registry.register_schema(subject, Schema(ORDER, "JSON"))
    assert f".team-{registry.prefix}" in registry.get_contexts()
    assert refusal(registry.get_versions, "orders") == (404, 40401)
    assert registry.update_mode(subject, "READONLY") == "READONLY"
    assert refusal(registry.register_schema, subject, Schema(USER, "AVRO")) == (422, 42205)
    assert registry.get_mode(subject) == "READONLY"
    assert registry.delete_mode(subject) == "READONLY"
    assert registry.get_global_mode() == "READWRITE"
    assert refusal(registry.update_mode, subject, "UPSIDE_DOWN") == (422, 42204)
    assert sorted(registry.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]
