"""Users, keys and rules in the metadata: behind a feature level, over restarts, and told to those who listen."""

from __future__ import annotations

import pytest

from goqueue.clock import Clock
from goqueue.errors import Conflict, InvalidRequest, NotFound, UnsupportedFeatureLevel
from goqueue.metadata.events import SecurityChanged
from goqueue.metadata.local import LocalMetadata
from goqueue.security.access import Access
from goqueue.security.audit import AuditLog
from goqueue.security.authentication import Authenticator, new_key
from goqueue.security.model import Acl, Binding, Grant, Operation, Pattern, Permission, Resource, Role, User
from goqueue.security.scram import Decoy
from goqueue.security.store import Losers, SecurityStore
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload

RULE = Acl(Resource.TOPIC, "o", Pattern.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)


def opened(files: MemoryFiles, clock: Clock) -> LocalMetadata:
    return LocalMetadata.open(files, clock=clock, rng=seeded_rng(1), offload=InlineOffload())


async def test_values_are_written_only_behind_their_feature_level() -> None:
    metadata = opened(MemoryFiles(), ManualClock())
    with pytest.raises(UnsupportedFeatureLevel, match=r"security\.version"):
        await metadata.commit([SecurityChanged("user", "a", b"{}")])
    await SecurityStore(metadata, Access()).put_user(User("a", {}))
    assert metadata.image.feature_levels()["security.version"] == 1
    await metadata.close()


async def test_the_salt_of_a_user_who_does_not_exist_is_the_same_on_every_node_and_after_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    metadata = opened(files, clock)
    one, two = SecurityStore(metadata, Access()), SecurityStore(metadata, Access())
    assert one.decoy_secret != two.decoy_secret
    await one.keep_secrets()
    # The other node follows, and does not store its own.
    await two.keep_secrets()
    salts = {Decoy(lambda store=store: store.decoy_secret).of("SCRAM-SHA-256", "x").salt for store in (one, two)}
    await metadata.close()
    again = opened(files, clock)
    store = SecurityStore(again, Access())
    assert salts == {Decoy(lambda: store.decoy_secret).of("SCRAM-SHA-256", "x").salt}
    assert Decoy(lambda: store.decoy_secret).of("SCRAM-SHA-256", "y").salt not in salts
    await again.close()


async def test_what_was_stored_is_there_after_a_restart() -> None:
    files, clock = MemoryFiles(), ManualClock()
    metadata = opened(files, clock)
    store = SecurityStore(metadata, Access())
    text, key = new_key("User:a", label="l", now_ms=5, expires_ms=0)
    await store.put_user(User("a", {}, 1, 2))
    await store.put_key(key)
    await store.put_role(Role("own", (Grant("topic", ("read",)),)))
    await store.bind(Binding("User:a", "own", "p."))
    await store.add_acls([RULE])
    await store.delete_user("a")
    await metadata.close()
    again = opened(files, clock)
    access = Access()
    found = SecurityStore(again, access)
    assert (found.users, found.keys, found.bindings, found.acls) == (
        {},
        {key.id: key},
        {Binding("User:a", "own", "p.")},
        {RULE},
    )
    assert access.of("User:a", "h").may(Operation.READ, Resource.TOPIC, "p.x")
    assert text not in str(found.keys)
    await again.close()


async def test_listeners_hear_who_has_lost_something_and_of_nobody_who_gained() -> None:
    metadata = opened(MemoryFiles(), ManualClock())
    store = SecurityStore(metadata, Access())
    heard: list[Losers] = []
    store.subscribe(heard.append)
    await store.put_user(User("a", {}))
    await store.bind(Binding("User:a", "producer", ""))
    await store.add_acls([RULE])
    assert heard == []
    await store.delete_acls([RULE])
    await store.put_user(User("a", {}, 1, 2))
    await store.unbind(Binding("User:a", "producer", ""))
    await store.add_acls([RULE._replace(permission=Permission.DENY, principal="User:*")])
    assert heard == [frozenset({"User:a"})] * 3 + [None]
    await metadata.close()


async def test_what_contradicts_the_rest_is_refused() -> None:
    metadata = opened(MemoryFiles(), ManualClock())
    store = SecurityStore(metadata, Access())
    with pytest.raises(InvalidRequest, match="no role 'x'"):
        await store.bind(Binding("User:a", "x", ""))
    with pytest.raises(Conflict, match="built in"):
        await store.put_role(Role("admin", ()))
    with pytest.raises(InvalidRequest, match="is not a resource"):
        await store.put_role(Role("own", (Grant("planet", ("read",)),)))
    with pytest.raises(NotFound):
        await store.delete_key("nothing")
    await metadata.close()


async def test_when_a_key_was_used_is_stored_at_most_once_an_hour() -> None:
    clock = ManualClock()
    metadata = opened(MemoryFiles(), clock)
    store = SecurityStore(metadata, Access())
    audit = AuditLog(clock, with_data=False, is_required=False)
    authenticator = Authenticator(
        store, mechanisms=(), rules=(), tokens=None, offload=InlineOffload(), clock=clock, on_login=audit.login
    )
    text, key = new_key("User:a", label="", now_ms=clock.now_ms(), expires_ms=0)
    await store.put_key(key)
    clock.advance(ms=3_600_000)
    authenticator.of_key(text)
    await authenticator.keep_last_used()
    first = store.keys[key.id].last_used_ms
    assert first == clock.now_ms()
    clock.advance(ms=60_000)
    authenticator.of_key(text)
    await authenticator.keep_last_used()
    assert store.keys[key.id].last_used_ms == first
    await metadata.close()


async def test_the_audit_log_is_bounded_and_says_when_it_cannot_be_written() -> None:
    from goqueue.caller import Caller
    from goqueue.errors import StorageError

    audit = AuditLog(ManualClock(), with_data=False, is_required=True)

    def broken(lines: object) -> None:
        raise OSError(28, "No space left on device")

    audit.add_sink(broken)
    for _ in range(20_000):
        audit.login("User:a", "plain", "h", "wrong")
    assert audit.dropped == 10_000
    audit.flush()
    assert audit.dropped == 20_000
    caller = Caller(principal="User:a")
    with pytest.raises(StorageError, match="nothing is changed"):
        audit(caller, Operation.DELETE, Resource.TOPIC, "o", is_allowed=True)
    assert Operation.READ not in audit.told
