"""From the subject of a certificate to a name."""

from __future__ import annotations

import pytest

from goqueue.security.certificate_names import name_of, parse_rules, subject_of

CERTIFICATE = {"subject": ((("countryName", "DE"),), (("organizationName", "Ex, Inc"),), (("commonName", "Alice"),))}


def test_a_subject_is_written_as_kafka_writes_it() -> None:
    assert subject_of(CERTIFICATE) == r"CN=Alice,O=Ex\, Inc,C=DE"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        (["DEFAULT"], r"CN=Alice,O=Ex\, Inc,C=DE"),
        ([r"RULE:^CN=(.*?),.*$/$1/"], "Alice"),
        ([r"RULE:^CN=(.*?),.*$/$1/L"], "alice"),
        ([r"RULE:^CN=(.*?),.*$/user-$1/U"], "USER-ALICE"),
        ([r"RULE:^OU=(.*)$/$1/", "DEFAULT"], r"CN=Alice,O=Ex\, Inc,C=DE"),
        ([r"RULE:^OU=(.*)$/$1/"], None),
    ],
)
def test_the_first_rule_that_fits_decides(rules: list[str], name: str | None) -> None:
    assert name_of(CERTIFICATE, parse_rules(rules)) == name


def test_a_certificate_without_a_subject_is_nobody() -> None:
    assert name_of({"subject": ()}, parse_rules(["DEFAULT"])) is None


@pytest.mark.parametrize("text", ["", "RULE:abc", "RULE:(/x/", "default", "RULE:a/b/X"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a rule|unterminated"):
        parse_rules([text])
