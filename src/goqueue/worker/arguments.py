"""Arguments of a task as JSON, typed by the function's annotations.

`{"args": [...], "kwargs": {...}}`. Types are checked by msgspec; arguments that are pydantic models are checked by
pydantic. Both sides check, so that a mistake is raised where `send` is called.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, get_args, get_type_hints

import msgspec

from goqueue.client import ClientError, InvalidArgument

Call = tuple[tuple[Any, ...], dict[str, Any]]
_VARIADIC = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


class InvalidTaskArguments(ClientError, TypeError):
    """The arguments do not fit the task's signature or its types."""


class _Wire(msgspec.Struct):
    """The value of a task's message."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}


_decoder = msgspec.json.Decoder(_Wire)


class Arguments:
    """Writes and reads the arguments of one function."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._name = name
        self._signature = inspect.signature(function)
        self._hints: Mapping[str, Any] | None = None

    @property
    def required(self) -> list[str]:
        """Names of the parameters that have no default."""
        return [
            one.name
            for one in self._signature.parameters.values()
            if one.default is inspect.Parameter.empty and one.kind not in _VARIADIC
        ]

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """The message's value; raises what a call with these arguments would raise, and for wrong types."""
        try:
            plain = _Wire([_plain(one) for one in args], {name: _plain(one) for name, one in kwargs.items()})
            encoded = msgspec.json.encode(plain)
        except (TypeError, ValueError) as problem:
            raise InvalidTaskArguments(
                f"arguments of task {self._name!r} cannot be written as JSON: {problem}"
            ) from None
        self.decode(encoded)
        return encoded

    def decode(self, value: bytes | None) -> Call:
        """What to call the function with."""
        try:
            wire = _decoder.decode(value or b"{}")
            bound = self._signature.bind(*wire.args, **wire.kwargs)
        except (msgspec.MsgspecError, TypeError) as problem:
            raise InvalidTaskArguments(f"arguments of task {self._name!r}: {problem}") from None
        for name, given in bound.arguments.items():
            bound.arguments[name] = self._convert(self._signature.parameters[name], given)
        return bound.args, bound.kwargs

    def _convert(self, parameter: inspect.Parameter, given: Any) -> Any:
        wanted = self._types().get(parameter.name, Any)
        try:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                return tuple(_typed(one, wanted) for one in given)
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                return {name: _typed(one, wanted) for name, one in given.items()}
            return _typed(given, wanted)
        except ValueError as problem:
            raise InvalidTaskArguments(f"argument {parameter.name!r} of task {self._name!r}: {problem}") from None

    def _types(self) -> Mapping[str, Any]:
        # Not when the function is decorated: its annotations may name what is defined below it.
        if self._hints is None:
            try:
                self._hints = get_type_hints(self._function, include_extras=True)
            except NameError as problem:
                raise InvalidArgument(
                    f"the annotations of task {self._name!r} cannot be read ({problem})",
                    "import the types of its arguments outside of TYPE_CHECKING",
                ) from None
        return self._hints


def _typed(given: Any, wanted: Any) -> Any:
    if _has_pydantic_model(wanted):
        # Its ValidationError is a ValueError, as msgspec's is.
        return import_module("pydantic").TypeAdapter(wanted).validate_python(given)
    return msgspec.convert(given, wanted, str_keys=True)


def _plain(given: Any) -> Any:
    return msgspec.to_builtins(given, str_keys=True, enc_hook=plain_model)


def plain_model(given: Any) -> Any:
    """A pydantic model as plain data; anything else is refused."""
    if "pydantic" in sys.modules and isinstance(given, sys.modules["pydantic"].BaseModel):
        return given.model_dump(mode="json")
    raise TypeError(f"a value of type {type(given).__name__} cannot be written as JSON")


def _has_pydantic_model(wanted: Any) -> bool:
    if "pydantic" not in sys.modules:
        return False
    if inspect.isclass(wanted) and issubclass(wanted, sys.modules["pydantic"].BaseModel):
        return True
    return any(_has_pydantic_model(one) for one in get_args(wanted))
