"""The names that a request to a route may have, for errors that name the field to blame."""

from __future__ import annotations

import re

from goqueue.servers.field_names import field_in
from goqueue.servers.http.route import Route

__all__ = ["BODY", "field_in", "names_of"]

_IN_BRACES = re.compile(r"{(\w+)}")
# The request as a whole.
BODY = "body"


def names_of(route: Route) -> frozenset[str]:
    """Every name that a request to the route may have: parts of its path, its query, its body."""
    names = {BODY, *_IN_BRACES.findall(route.path)}
    for kind in (route.query, route.body):
        if kind is not None:
            names.update(kind.__struct_encode_fields__)
    return frozenset(names)
