"""YAML as people expect it: `on`, `off`, `yes` and `no` are words, times are text, and every part has a line.

YAML 1.1 reads `on:` as the key True, which would surprise whoever writes a join. It also makes objects of times: what
is written here, such as `start: 2026-01-01T00:00:00Z`, is for us to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """Only true and false are booleans, and times are text, as in YAML 1.2."""


def _is_read(tag: str, first: str) -> bool:
    return first in "tTfF" if tag == "tag:yaml.org,2002:bool" else tag != "tag:yaml.org,2002:timestamp"


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if _is_read(tag, first)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(text: str) -> tuple[Any, Mapping[str, int]]:
    """The document's values, and the line on which each part begins, by its path."""
    root = yaml.compose(text, Loader=_Loader)
    lines: dict[str, int] = {}
    if root is None:
        return None, lines
    _walk(root, "", lines)
    # `text` is parsed a second time: files are small, and composing keeps no values.
    return yaml.load(text, Loader=_Loader), lines  # noqa: S506 - a safe loader with fewer booleans


def line_at(lines: Mapping[str, int], path: str) -> int | None:
    """The line of a path, or of the nearest thing around it that is in the file."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path)


def _walk(node: yaml.Node, path: str, lines: dict[str, int]) -> None:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = f"{path}.{key.value}" if path else str(key.value)
            lines.setdefault(inner, key.start_mark.line + 1)
            _walk(value, inner, lines)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _walk(value, f"{path}[{number}]", lines)
