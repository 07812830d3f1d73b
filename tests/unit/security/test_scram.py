"""SCRAM: logins that succeed, and messages that prove nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import AuthenticationFailed
from goqueue.security.model import ScramCredential
from goqueue.security.scram import MECHANISMS, Decoy, ScramLogin, credential_of, is_password

CREDENTIALS = {name: credential_of(name, "right", 4096) for name in MECHANISMS}
DECOY = Decoy(lambda: b"a secret of the cluster")


def login(mechanism: str = "SCRAM-SHA-256", user: str = "alice") -> ScramLogin:
    def find(name: str) -> ScramCredential | None:
        return CREDENTIALS[mechanism] if name == user else None

    return ScramLogin(mechanism, find, DECOY)


def final(mechanism: str, first: str, answer: str, password: str) -> bytes:
    """What a client answers to the server's first message."""
    digest = MECHANISMS[mechanism]
    fields = dict(part.partition("=")[::2] for part in answer.split(","))
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    without = f"c=biws,r={fields['r']}"
    signed = f"{first},{answer},{without}".encode()
    key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    return f"{without},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_password_is_accepted(mechanism: str) -> None:
    one = login(mechanism)
    answer = one.step(b"n,,n=alice,r=abc").decode()
    assert one.step(final(mechanism, "n=alice,r=abc", answer, "right")).startswith(b"v=")
    assert one.is_done


def test_a_wrong_password_and_a_user_that_is_not_there_fail_alike() -> None:
    for user, password in (("alice", "wrong"), ("nobody", "right")):
        one = login()
        answer = one.step(f"n,,n={user},r=abc".encode()).decode()
        with pytest.raises(AuthenticationFailed) as told:
            one.step(final("SCRAM-SHA-256", f"n={user},r=abc", answer, password))
        assert str(told.value) == "authentication failed"
        assert not one.is_done


def test_a_user_that_is_not_there_has_always_the_same_salt() -> None:
    salts = {login().step(b"n,,n=nobody,r=abc").split(b",")[1] for _ in range(3)}
    assert len(salts) == 1


def test_messages_of_an_earlier_login_prove_nothing() -> None:
    earlier = login()
    answer = earlier.step(b"n,,n=alice,r=abc").decode()
    recorded = final("SCRAM-SHA-256", "n=alice,r=abc", answer, "right")
    earlier.step(recorded)
    later = login()
    later.step(b"n,,n=alice,r=abc")
    with pytest.raises(AuthenticationFailed):
        later.step(recorded)


def test_a_login_is_over_after_its_last_message() -> None:
    one = login()
    answer = one.step(b"n,,n=alice,r=abc").decode()
    last = final("SCRAM-SHA-256", "n=alice,r=abc", answer, "right")
    one.step(last)
    with pytest.raises(AuthenticationFailed):
        one.step(last)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,a=bob,n=alice,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=alice,n=bob,r=abc",
        b"n,,m=x,n=alice,r=abc",
        b"n,,n=alice,r=" + b"x" * 5000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        login().step(message)


@given(st.binary(max_size=300))
def test_no_message_breaks_a_login(message: bytes) -> None:
    one = login()
    for first in (message, b"n,,n=alice,r=abc"):
        try:
            one.step(first)
            break
        except AuthenticationFailed:
            continue
    with pytest.raises(AuthenticationFailed):
        one.step(message)


def test_names_with_commas_and_equal_signs_are_read_as_they_are_meant() -> None:
    one = login(user="a,b=c")
    answer = one.step(b"n,,n=a=2Cb=3Dc,r=abc").decode()
    one.step(final("SCRAM-SHA-256", "n=a=2Cb=3Dc,r=abc", answer, "right"))
    assert one.user == "a,b=c"


def test_a_stored_credential_does_not_contain_the_password() -> None:
    held = CREDENTIALS["SCRAM-SHA-256"]
    assert is_password("SCRAM-SHA-256", held, "right")
    assert not is_password("SCRAM-SHA-256", held, "Right")
    assert b"right" not in held.stored_key + held.server_key + held.salt
