from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SchemaReference(_message.Message):
    __slots__ = ("name", "subject", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    subject: str
    version: int
    def __init__(self, name: _Optional[str] = ..., subject: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class Words(_message.Message):
    __slots__ = ("words",)
    WORDS_FIELD_NUMBER: _ClassVar[int]
    words: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, words: _Optional[_Iterable[str]] = ...) -> None: ...

class SchemaMetadata(_message.Message):
    __slots__ = ("tags", "properties", "sensitive")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Words
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Words, _Mapping]] = ...) -> None: ...
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TAGS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    SENSITIVE_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.MessageMap[str, Words]
    properties: _containers.ScalarMap[str, str]
    sensitive: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tags: _Optional[_Mapping[str, Words]] = ..., properties: _Optional[_Mapping[str, str]] = ..., sensitive: _Optional[_Iterable[str]] = ...) -> None: ...

class SchemaRule(_message.Message):
    __slots__ = ("name", "doc", "kind", "mode", "type", "tags", "params", "expr", "on_success", "on_failure", "disabled")
    class ParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOC_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    EXPR_FIELD_NUMBER: _ClassVar[int]
    ON_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    DISABLED_FIELD_NUMBER: _ClassVar[int]
    name: str
    doc: str
    kind: str
    mode: str
    type: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    params: _containers.ScalarMap[str, str]
    expr: str
    on_success: str
    on_failure: str
    disabled: bool
    def __init__(self, name: _Optional[str] = ..., doc: _Optional[str] = ..., kind: _Optional[str] = ..., mode: _Optional[str] = ..., type: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., params: _Optional[_Mapping[str, str]] = ..., expr: _Optional[str] = ..., on_success: _Optional[str] = ..., on_failure: _Optional[str] = ..., disabled: _Optional[bool] = ...) -> None: ...

class SchemaRuleSet(_message.Message):
    __slots__ = ("migration_rules", "domain_rules", "encoding_rules")
    MIGRATION_RULES_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_RULES_FIELD_NUMBER: _ClassVar[int]
    ENCODING_RULES_FIELD_NUMBER: _ClassVar[int]
    migration_rules: _containers.RepeatedCompositeFieldContainer[SchemaRule]
    domain_rules: _containers.RepeatedCompositeFieldContainer[SchemaRule]
    encoding_rules: _containers.RepeatedCompositeFieldContainer[SchemaRule]
    def __init__(self, migration_rules: _Optional[_Iterable[_Union[SchemaRule, _Mapping]]] = ..., domain_rules: _Optional[_Iterable[_Union[SchemaRule, _Mapping]]] = ..., encoding_rules: _Optional[_Iterable[_Union[SchemaRule, _Mapping]]] = ...) -> None: ...

class RegisteredSchema(_message.Message):
    __slots__ = ("schema_type", "schema", "subject", "id", "version", "guid", "references", "metadata", "rule_set", "deleted", "max_id")
    SCHEMA_TYPE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GUID_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RULE_SET_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    MAX_ID_FIELD_NUMBER: _ClassVar[int]
    schema_type: str
    schema: str
    subject: str
    id: int
    version: int
    guid: str
    references: _containers.RepeatedCompositeFieldContainer[SchemaReference]
    metadata: SchemaMetadata
    rule_set: SchemaRuleSet
    deleted: bool
    max_id: int
    def __init__(self, schema_type: _Optional[str] = ..., schema: _Optional[str] = ..., subject: _Optional[str] = ..., id: _Optional[int] = ..., version: _Optional[int] = ..., guid: _Optional[str] = ..., references: _Optional[_Iterable[_Union[SchemaReference, _Mapping]]] = ..., metadata: _Optional[_Union[SchemaMetadata, _Mapping]] = ..., rule_set: _Optional[_Union[SchemaRuleSet, _Mapping]] = ..., deleted: _Optional[bool] = ..., max_id: _Optional[int] = ...) -> None: ...

class SubjectVersion(_message.Message):
    __slots__ = ("subject", "version")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    subject: str
    version: int
    def __init__(self, subject: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class ContextId(_message.Message):
    __slots__ = ("context", "id")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    context: str
    id: int
    def __init__(self, context: _Optional[str] = ..., id: _Optional[int] = ...) -> None: ...

class SubjectStats(_message.Message):
    __slots__ = ("subject", "versions", "latest_version", "latest_id", "compatibility")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    LATEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    LATEST_ID_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    subject: str
    versions: int
    latest_version: int
    latest_id: int
    compatibility: str
    def __init__(self, subject: _Optional[str] = ..., versions: _Optional[int] = ..., latest_version: _Optional[int] = ..., latest_id: _Optional[int] = ..., compatibility: _Optional[str] = ...) -> None: ...

class ListSubjectsRequest(_message.Message):
    __slots__ = ("subject_prefix", "deleted", "deleted_only", "latest_only", "offset", "limit")
    SUBJECT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    DELETED_ONLY_FIELD_NUMBER: _ClassVar[int]
    LATEST_ONLY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    subject_prefix: str
    deleted: bool
    deleted_only: bool
    latest_only: bool
    offset: int
    limit: int
    def __init__(self, subject_prefix: _Optional[str] = ..., deleted: _Optional[bool] = ..., deleted_only: _Optional[bool] = ..., latest_only: _Optional[bool] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class ListSubjectsResponse(_message.Message):
    __slots__ = ("subjects",)
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    subjects: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, subjects: _Optional[_Iterable[str]] = ...) -> None: ...

class RegisterSchemaRequest(_message.Message):
    __slots__ = ("subject", "schema", "schema_type", "references", "metadata", "rule_set", "id", "version", "normalize")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_TYPE_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RULE_SET_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    subject: str
    schema: str
    schema_type: str
    references: _containers.RepeatedCompositeFieldContainer[SchemaReference]
    metadata: SchemaMetadata
    rule_set: SchemaRuleSet
    id: int
    version: int
    normalize: bool
    def __init__(self, subject: _Optional[str] = ..., schema: _Optional[str] = ..., schema_type: _Optional[str] = ..., references: _Optional[_Iterable[_Union[SchemaReference, _Mapping]]] = ..., metadata: _Optional[_Union[SchemaMetadata, _Mapping]] = ..., rule_set: _Optional[_Union[SchemaRuleSet, _Mapping]] = ..., id: _Optional[int] = ..., version: _Optional[int] = ..., normalize: _Optional[bool] = ...) -> None: ...

class RegisterSchemaResponse(_message.Message):
    __slots__ = ("schema",)
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    schema: RegisteredSchema
    def __init__(self, schema: _Optional[_Union[RegisteredSchema, _Mapping]] = ...) -> None: ...

class LookupSchemaRequest(_message.Message):
    __slots__ = ("subject", "schema", "schema_type", "references", "metadata", "rule_set", "id", "version", "normalize", "deleted", "format")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_TYPE_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RULE_SET_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    schema: str
    schema_type: str
    references: _containers.RepeatedCompositeFieldContainer[SchemaReference]
    metadata: SchemaMetadata
    rule_set: SchemaRuleSet
    id: int
    version: int
    normalize: bool
    deleted: bool
    format: str
    def __init__(self, subject: _Optional[str] = ..., schema: _Optional[str] = ..., schema_type: _Optional[str] = ..., references: _Optional[_Iterable[_Union[SchemaReference, _Mapping]]] = ..., metadata: _Optional[_Union[SchemaMetadata, _Mapping]] = ..., rule_set: _Optional[_Union[SchemaRuleSet, _Mapping]] = ..., id: _Optional[int] = ..., version: _Optional[int] = ..., normalize: _Optional[bool] = ..., deleted: _Optional[bool] = ..., format: _Optional[str] = ...) -> None: ...

class LookupSchemaResponse(_message.Message):
    __slots__ = ("schema",)
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    schema: RegisteredSchema
    def __init__(self, schema: _Optional[_Union[RegisteredSchema, _Mapping]] = ...) -> None: ...

class DeleteSubjectRequest(_message.Message):
    __slots__ = ("subject", "permanent")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    permanent: bool
    def __init__(self, subject: _Optional[str] = ..., permanent: _Optional[bool] = ...) -> None: ...

class DeleteSubjectResponse(_message.Message):
    __slots__ = ("versions",)
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, versions: _Optional[_Iterable[int]] = ...) -> None: ...

class GetVersionByMetadataRequest(_message.Message):
    __slots__ = ("subject", "properties", "deleted", "format")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    properties: _containers.ScalarMap[str, str]
    deleted: bool
    format: str
    def __init__(self, subject: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., deleted: _Optional[bool] = ..., format: _Optional[str] = ...) -> None: ...

class GetVersionByMetadataResponse(_message.Message):
    __slots__ = ("schema",)
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    schema: RegisteredSchema
    def __init__(self, schema: _Optional[_Union[RegisteredSchema, _Mapping]] = ...) -> None: ...

class ListVersionsRequest(_message.Message):
    __slots__ = ("subject", "deleted", "deleted_only", "offset", "limit")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    DELETED_ONLY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    deleted: bool
    deleted_only: bool
    offset: int
    limit: int
    def __init__(self, subject: _Optional[str] = ..., deleted: _Optional[bool] = ..., deleted_only: _Optional[bool] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class ListVersionsResponse(_message.Message):
    __slots__ = ("versions",)
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, versions: _Optional[_Iterable[int]] = ...) -> None: ...

class GetVersionOfSubjectRequest(_message.Message):
    __slots__ = ("subject", "version", "format", "deleted")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    subject: str
    version: str
    format: str
    deleted: bool
    def __init__(self, subject: _Optional[str] = ..., version: _Optional[str] = ..., format: _Optional[str] = ..., deleted: _Optional[bool] = ...) -> None: ...

class GetVersionOfSubjectResponse(_message.Message):
    __slots__ = ("schema",)
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    schema: RegisteredSchema
    def __init__(self, schema: _Optional[_Union[RegisteredSchema, _Mapping]] = ...) -> None: ...

class DeleteVersionRequest(_message.Message):
    __slots__ = ("subject", "version", "permanent")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    version: str
    permanent: bool
    def __init__(self, subject: _Optional[str] = ..., version: _Optional[str] = ..., permanent: _Optional[bool] = ...) -> None: ...

class DeleteVersionResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class ListReferencesRequest(_message.Message):
    __slots__ = ("subject", "version")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    subject: str
    version: str
    def __init__(self, subject: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class ListReferencesResponse(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ListSchemasRequest(_message.Message):
    __slots__ = ("subject_prefix", "deleted", "deleted_only", "latest_only", "offset", "limit")
    SUBJECT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    DELETED_ONLY_FIELD_NUMBER: _ClassVar[int]
    LATEST_ONLY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    subject_prefix: str
    deleted: bool
    deleted_only: bool
    latest_only: bool
    offset: int
    limit: int
    def __init__(self, subject_prefix: _Optional[str] = ..., deleted: _Optional[bool] = ..., deleted_only: _Optional[bool] = ..., latest_only: _Optional[bool] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class ListSchemasResponse(_message.Message):
    __slots__ = ("schemas",)
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    schemas: _containers.RepeatedCompositeFieldContainer[RegisteredSchema]
    def __init__(self, schemas: _Optional[_Iterable[_Union[RegisteredSchema, _Mapping]]] = ...) -> None: ...

class ListSchemaTypesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSchemaTypesResponse(_message.Message):
    __slots__ = ("types",)
    TYPES_FIELD_NUMBER: _ClassVar[int]
    types: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, types: _Optional[_Iterable[str]] = ...) -> None: ...

class GetSchemaRequest(_message.Message):
    __slots__ = ("schema_id", "format", "deleted", "fetch_max_id", "subject")
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    FETCH_MAX_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    schema_id: int
    format: str
    deleted: bool
    fetch_max_id: bool
    subject: str
    def __init__(self, schema_id: _Optional[int] = ..., format: _Optional[str] = ..., deleted: _Optional[bool] = ..., fetch_max_id: _Optional[bool] = ..., subject: _Optional[str] = ...) -> None: ...

class GetSchemaResponse(_message.Message):
    __slots__ = ("schema",)
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    schema: RegisteredSchema
    def __init__(self, schema: _Optional[_Union[RegisteredSchema, _Mapping]] = ...) -> None: ...

class ListSchemaSubjectsRequest(_message.Message):
    __slots__ = ("schema_id", "subject", "deleted", "offset", "limit")
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    schema_id: int
    subject: str
    deleted: bool
    offset: int
    limit: int
    def __init__(self, schema_id: _Optional[int] = ..., subject: _Optional[str] = ..., deleted: _Optional[bool] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class ListSchemaSubjectsResponse(_message.Message):
    __slots__ = ("subjects",)
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    subjects: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, subjects: _Optional[_Iterable[str]] = ...) -> None: ...

class ListSchemaVersionsRequest(_message.Message):
    __slots__ = ("schema_id", "subject", "deleted", "offset", "limit")
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    schema_id: int
    subject: str
    deleted: bool
    offset: int
    limit: int
    def __init__(self, schema_id: _Optional[int] = ..., subject: _Optional[str] = ..., deleted: _Optional[bool] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class ListSchemaVersionsResponse(_message.Message):
    __slots__ = ("versions",)
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[SubjectVersion]
    def __init__(self, versions: _Optional[_Iterable[_Union[SubjectVersion, _Mapping]]] = ...) -> None: ...

class GetSchemaByGuidRequest(_message.Message):
    __slots__ = ("guid", "format")
    GUID_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    guid: str
    format: str
    def __init__(self, guid: _Optional[str] = ..., format: _Optional[str] = ...) -> None: ...

class GetSchemaByGuidResponse(_message.Message):
    __slots__ = ("schema",)
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    schema: RegisteredSchema
    def __init__(self, schema: _Optional[_Union[RegisteredSchema, _Mapping]] = ...) -> None: ...

class ListGuidIdsRequest(_message.Message):
    __slots__ = ("guid",)
    GUID_FIELD_NUMBER: _ClassVar[int]
    guid: str
    def __init__(self, guid: _Optional[str] = ...) -> None: ...

class ListGuidIdsResponse(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedCompositeFieldContainer[ContextId]
    def __init__(self, ids: _Optional[_Iterable[_Union[ContextId, _Mapping]]] = ...) -> None: ...

class TestCompatibilityRequest(_message.Message):
    __slots__ = ("subject", "version", "schema", "schema_type", "references", "metadata", "rule_set", "normalize", "verbose")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_TYPE_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RULE_SET_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    VERBOSE_FIELD_NUMBER: _ClassVar[int]
    subject: str
    version: str
    schema: str
    schema_type: str
    references: _containers.RepeatedCompositeFieldContainer[SchemaReference]
    metadata: SchemaMetadata
    rule_set: SchemaRuleSet
    normalize: bool
    verbose: bool
    def __init__(self, subject: _Optional[str] = ..., version: _Optional[str] = ..., schema: _Optional[str] = ..., schema_type: _Optional[str] = ..., references: _Optional[_Iterable[_Union[SchemaReference, _Mapping]]] = ..., metadata: _Optional[_Union[SchemaMetadata, _Mapping]] = ..., rule_set: _Optional[_Union[SchemaRuleSet, _Mapping]] = ..., normalize: _Optional[bool] = ..., verbose: _Optional[bool] = ...) -> None: ...

class TestCompatibilityResponse(_message.Message):
    __slots__ = ("is_compatible", "messages")
    IS_COMPATIBLE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    is_compatible: bool
    messages: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, is_compatible: _Optional[bool] = ..., messages: _Optional[_Iterable[str]] = ...) -> None: ...

class GetConfigRequest(_message.Message):
    __slots__ = ("subject", "default_to_global")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_TO_GLOBAL_FIELD_NUMBER: _ClassVar[int]
    subject: str
    default_to_global: bool
    def __init__(self, subject: _Optional[str] = ..., default_to_global: _Optional[bool] = ...) -> None: ...

class GetConfigResponse(_message.Message):
    __slots__ = ("compatibility", "normalize", "compatibility_group", "validation_enabled", "compatibility_level")
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_GROUP_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_ENABLED_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    compatibility: str
    normalize: bool
    compatibility_group: str
    validation_enabled: bool
    compatibility_level: str
    def __init__(self, compatibility: _Optional[str] = ..., normalize: _Optional[bool] = ..., compatibility_group: _Optional[str] = ..., validation_enabled: _Optional[bool] = ..., compatibility_level: _Optional[str] = ...) -> None: ...

class SetConfigRequest(_message.Message):
    __slots__ = ("subject", "compatibility", "normalize", "compatibility_group", "validation_enabled")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_GROUP_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_ENABLED_FIELD_NUMBER: _ClassVar[int]
    subject: str
    compatibility: str
    normalize: bool
    compatibility_group: str
    validation_enabled: bool
    def __init__(self, subject: _Optional[str] = ..., compatibility: _Optional[str] = ..., normalize: _Optional[bool] = ..., compatibility_group: _Optional[str] = ..., validation_enabled: _Optional[bool] = ...) -> None: ...

class SetConfigResponse(_message.Message):
    __slots__ = ("compatibility", "normalize", "compatibility_group", "validation_enabled", "compatibility_level")
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_GROUP_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_ENABLED_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    compatibility: str
    normalize: bool
    compatibility_group: str
    validation_enabled: bool
    compatibility_level: str
    def __init__(self, compatibility: _Optional[str] = ..., normalize: _Optional[bool] = ..., compatibility_group: _Optional[str] = ..., validation_enabled: _Optional[bool] = ..., compatibility_level: _Optional[str] = ...) -> None: ...

class DeleteConfigRequest(_message.Message):
    __slots__ = ("subject",)
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    def __init__(self, subject: _Optional[str] = ...) -> None: ...

class DeleteConfigResponse(_message.Message):
    __slots__ = ("compatibility", "normalize", "compatibility_group", "validation_enabled", "compatibility_level")
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_GROUP_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_ENABLED_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    compatibility: str
    normalize: bool
    compatibility_group: str
    validation_enabled: bool
    compatibility_level: str
    def __init__(self, compatibility: _Optional[str] = ..., normalize: _Optional[bool] = ..., compatibility_group: _Optional[str] = ..., validation_enabled: _Optional[bool] = ..., compatibility_level: _Optional[str] = ...) -> None: ...

class GetModeRequest(_message.Message):
    __slots__ = ("subject", "default_to_global")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_TO_GLOBAL_FIELD_NUMBER: _ClassVar[int]
    subject: str
    default_to_global: bool
    def __init__(self, subject: _Optional[str] = ..., default_to_global: _Optional[bool] = ...) -> None: ...

class GetModeResponse(_message.Message):
    __slots__ = ("mode",)
    MODE_FIELD_NUMBER: _ClassVar[int]
    mode: str
    def __init__(self, mode: _Optional[str] = ...) -> None: ...

class SetModeRequest(_message.Message):
    __slots__ = ("subject", "mode", "force")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    subject: str
    mode: str
    force: bool
    def __init__(self, subject: _Optional[str] = ..., mode: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class SetModeResponse(_message.Message):
    __slots__ = ("mode",)
    MODE_FIELD_NUMBER: _ClassVar[int]
    mode: str
    def __init__(self, mode: _Optional[str] = ...) -> None: ...

class DeleteModeRequest(_message.Message):
    __slots__ = ("subject",)
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    def __init__(self, subject: _Optional[str] = ...) -> None: ...

class DeleteModeResponse(_message.Message):
    __slots__ = ("mode",)
    MODE_FIELD_NUMBER: _ClassVar[int]
    mode: str
    def __init__(self, mode: _Optional[str] = ...) -> None: ...

class ListContextsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListContextsResponse(_message.Message):
    __slots__ = ("contexts",)
    CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    contexts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, contexts: _Optional[_Iterable[str]] = ...) -> None: ...

class GetRegistryStatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRegistryStatsResponse(_message.Message):
    __slots__ = ("subject_count", "total_schemas", "global_compatibility", "mode", "next_id", "subjects")
    SUBJECT_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    NEXT_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    subject_count: int
    total_schemas: int
    global_compatibility: str
    mode: str
    next_id: int
    subjects: _containers.RepeatedCompositeFieldContainer[SubjectStats]
    def __init__(self, subject_count: _Optional[int] = ..., total_schemas: _Optional[int] = ..., global_compatibility: _Optional[str] = ..., mode: _Optional[str] = ..., next_id: _Optional[int] = ..., subjects: _Optional[_Iterable[_Union[SubjectStats, _Mapping]]] = ...) -> None: ...
