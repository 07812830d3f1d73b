"""From the subject of a client certificate to a principal, by rules in the form of Kafka's ssl.principal.mapping.rules.

RULE:^CN=([a-z]+),.*$/$1/L, DEFAULT
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_SHORT: Mapping[str, str] = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "domainComponent": "DC",
    "userId": "UID",
    # The same in the library by which gRPC's certificates are read.
    "userID": "UID",
    "streetAddress": "STREET",
}
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_ESCAPED = re.compile(r"([,+\"\\<>;=#])")


class Rule(NamedTuple):
    """Subjects that match `pattern` become `replacement`; None: the subject itself is the name."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""


def parse_rules(texts: Iterable[str]) -> list[Rule]:
    """Read the rules, or raise ValueError for the first that is none."""
    rules = []
    for text in texts:
        if text == "DEFAULT":
            rules.append(Rule(None))
            continue
        found = _RULE.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is not a rule: write RULE:pattern/replacement/, with L or U behind it, or DEFAULT"
            )
        pattern, replacement, case = found.groups()
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{text!r}: {error}") from None
        rules.append(Rule(compiled, re.sub(r"\$(\d)", r"\\g<\1>", replacement), case))
    return rules or [Rule(None)]


def name_of(certificate: Mapping[str, Any], rules: Iterable[Rule]) -> str | None:
    """The name of a certificate that was verified; None if no rule takes it."""
    subject = subject_of(certificate)
    if not subject:
        return None
    for rule in rules:
        if rule.pattern is None:
            return subject
        found = rule.pattern.fullmatch(subject)
        if found is not None:
            name = found.expand(rule.replacement)
            name = name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
            return name or None
    return None


def subject_of(certificate: Mapping[str, Any]) -> str:
    """The distinguished name, the most specific part first, as Kafka writes it: CN=alice,OU=sales,O=example."""
    parts = []
    for relative in reversed(certificate.get("subject", ())):
        names = [f"{_SHORT.get(kind, kind)}={_escaped(value)}" for kind, value in relative]
        parts.append("+".join(names))
    return ",".join(parts)


def _escaped(value: str) -> str:
    return _ESCAPED.sub(r"\\\1", value)
