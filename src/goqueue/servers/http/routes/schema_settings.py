"""Settings of the schema registry: compatibility levels, modes, contexts, and what it holds."""

from __future__ import annotations

from typing import Any

from goqueue.errors import InvalidRequest, NoAssociations, NoSubjectConfig, NoSubjectMode
from goqueue.formats.compatibility.levels import parse_level
from goqueue.schemas.names import GLOBAL, parse_context, parse_scope
from goqueue.schemas.state import RegistryState
from goqueue.schemas.values import SubjectConfig, parse_mode
from goqueue.servers.http.bodies.schema_json import config_reply
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.routes.schemas import BASES
from goqueue.servers.http.types.schemas import (
    ConfigBody,
    ConfigQuery,
    ConfigReply,
    ForceQuery,
    ModeBody,
    ModeReply,
    RegistryStats,
    SubjectStats,
)
from goqueue.servers.services import Services

_REFUSED = ("alias", "default_metadata", "override_metadata", "default_rule_set", "override_rule_set")


async def show_config(services: Services, call: Call) -> ConfigReply:
    """Settings of all subjects."""
    scope = _scope(call)
    return config_reply(await services.schemas.ask(lambda state: state.config_of(scope)))


async def show_subject_config(services: Services, call: Call) -> ConfigReply:
    """Settings of a subject."""
    scope, query = _scope(call), call.query

    def look(state: RegistryState) -> SubjectConfig:
        if query.default_to_global:
            return state.config_of(scope)
        if scope not in state.configs:
            raise NoSubjectConfig(scope)
        return state.configs[scope]

    return config_reply(await services.schemas.ask(look))


async def set_config(services: Services, call: Call) -> ConfigReply:
    """Change settings."""
    body: ConfigBody = call.body
    for name in _REFUSED:
        if getattr(body, name) is not None:
            raise InvalidRequest(f"{name} is not supported: it would have no effect", field=name)
    level = body.compatibility or body.compatibility_level
    config = SubjectConfig(
        compatibility=None if level is None else parse_level(level),
        normalize=body.normalize,
        compatibility_group=body.compatibility_group,
        validation_enabled=body.validation_enabled,
    )
    scope = _scope(call)
    if body.validation_enabled is not None and (scope == GLOBAL or scope.endswith(":")):
        raise InvalidRequest(
            "validationEnabled is for one subject",
            field="validationEnabled",
            hint="set goqueue.schema.validation on the topics",
        )
    if config == SubjectConfig():
        raise InvalidRequest("the body changes no setting", field="body", hint='send {"compatibility": "FULL"}')
    return config_reply(await services.schemas.set_config(scope, config))


async def delete_config(services: Services, call: Call) -> ConfigReply:
    """Remove settings; the next wider ones hold."""
    return config_reply(await services.schemas.set_config(_scope(call), None))


async def show_mode(services: Services, call: Call) -> ModeReply:
    """The mode of all subjects."""
    scope = _scope(call)
    return ModeReply(mode=(await services.schemas.ask(lambda state: state.mode_of(scope))).value)


async def show_subject_mode(services: Services, call: Call) -> ModeReply:
    """The mode of a subject."""
    scope, query = _scope(call), call.query

    def look(state: RegistryState) -> str:
        if not query.default_to_global and scope not in state.modes:
            raise NoSubjectMode(scope)
        return state.mode_of(scope).value

    return ModeReply(mode=await services.schemas.ask(look))


async def set_mode(services: Services, call: Call) -> ModeReply:
    """Set a mode."""
    mode = await services.schemas.set_mode(_scope(call), parse_mode(call.body.mode), force=call.query.force)
    return ModeReply(mode=mode.value)


async def delete_mode(services: Services, call: Call) -> ModeReply:
    """Remove a mode; the next wider one holds."""
    return ModeReply(mode=(await services.schemas.set_mode(_scope(call), None)).value)


async def contexts(services: Services, _call: Call) -> list[str]:
    """List contexts."""
    return await services.schemas.ask(lambda state: state.contexts())


async def associations(_services: Services, _call: Call) -> None:
    """Say that there are none."""
    raise NoAssociations


async def stats(services: Services, _call: Call) -> RegistryStats:
    """Count what the registry holds."""

    def look(state: RegistryState) -> RegistryStats:
        rows = []
        for subject in state.subject_names():
            latest = state.version(subject, "latest")
            rows.append(
                SubjectStats(
                    subject=subject,
                    versions=len(state.versions(subject)),
                    latest_version=latest.version,
                    latest_id=latest.schema_id,
                    compatibility=state.level_of(subject).value,
                )
            )
        return RegistryStats(
            subject_count=len(rows),
            total_schemas=len(state.schemas),
            global_compatibility=state.level_of(GLOBAL).value,
            mode=state.mode_of(GLOBAL).value,
            next_id=state.next_id,
            subjects=rows,
        )

    return await services.schemas.ask(look)


def _scope(call: Call) -> str:
    """A subject, the context that a request was made in, or everything."""
    subject, context = call.path.get("subject"), call.path.get("context")
    if subject is not None:
        return parse_scope(subject, context)
    return GLOBAL if context is None else f":{parse_context(context)}:"


_ERRORS = (400, 404, 422, 501, 503)


def _route(method: str, path: str, handle: Any, summary: str, reply: Any, **more: Any) -> Route:
    return Route(method, path, handle, summary, {200: reply}, errors=_ERRORS, bases=BASES, is_registry=True, **more)


ROUTES = (
    _route("GET", "/config", show_config, "Show the settings of all subjects", ConfigReply),
    _route("PUT", "/config", set_config, "Change the settings of all subjects", ConfigReply, body=ConfigBody),
    _route("DELETE", "/config", delete_config, "Remove the settings of all subjects", ConfigReply),
    _route("GET", "/config/{subject}", show_subject_config, "Show settings", ConfigReply, query=ConfigQuery),
    _route("PUT", "/config/{subject}", set_config, "Change settings", ConfigReply, body=ConfigBody),
    _route("DELETE", "/config/{subject}", delete_config, "Remove settings", ConfigReply),
    _route("GET", "/mode", show_mode, "Show the mode of all subjects", ModeReply),
    _route("PUT", "/mode", set_mode, "Set the mode of all subjects", ModeReply, body=ModeBody, query=ForceQuery),
    _route("DELETE", "/mode", delete_mode, "Remove the mode of all subjects", ModeReply),
    _route("GET", "/mode/{subject}", show_subject_mode, "Show a mode", ModeReply, query=ConfigQuery),
    _route("PUT", "/mode/{subject}", set_mode, "Set a mode", ModeReply, body=ModeBody, query=ForceQuery),
    _route("DELETE", "/mode/{subject}", delete_mode, "Remove a mode", ModeReply),
    Route("GET", "/contexts", contexts, "List contexts", {200: list[str]}, errors=_ERRORS, bases=("/schemas",),
          is_registry=True),
    Route("GET", "/schemas/stats", stats, "Count subjects and schemas", {200: RegistryStats}, errors=_ERRORS,
          is_registry=True),
    Route("GET", "/associations/resources/{namespace}/{name}", associations, "List associations (always none)",
          {200: list[str]}, errors=_ERRORS, bases=("/schemas",), is_registry=True),
)  # fmt: skip
