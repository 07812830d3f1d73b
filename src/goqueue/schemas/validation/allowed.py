"""Which schemas a topic allows, worked out once for each state of the registry."""

from __future__ import annotations

from goqueue.formats.envelope import prefix_of
from goqueue.schemas.state import RegistryState
from goqueue.schemas.validation.rules import Rule, subjects_of

_TOPICS_MAX = 10_000


class Allowed:
    """The schemas of one topic's keys or values."""

    def __init__(self, state: RegistryState, topic: str, rule: Rule) -> None:
        self._state = state
        self._topic = topic
        self._rule = rule
        self.ids: set[int] = set()
        self.latest: int | None = None
        if rule.strategy == "topic":
            for subject in subjects_of(topic, is_key=rule.is_key):
                live = {number: one for number, one in state.subjects.get(subject, {}).items() if not one.deleted}
                self.ids |= {one.schema_id for one in live.values()}
                if live and self.latest is None:
                    self.latest = live[max(live)].schema_id
        # The first bytes of values that name an allowed schema, for a quick look.
        self.prefixes = {prefix_of(one) for one in self.ids}

    def takes(self, schema_id: int) -> bool:
        """Whether a schema is allowed."""
        if schema_id in self.ids:
            return True
        schema = self._state.schemas.get(schema_id)
        if self._rule.strategy == "topic" or schema is None:
            return False
        prefix = f"{self._topic}-" if self._rule.strategy == "topic-record" else ""
        subjects = {f"{prefix}{name}" for name in schema.names}
        found = any(
            subject in subjects and not self._state.subjects[subject][number].deleted
            for subject, number in self._state.places.get(schema_id, ())
        )
        if found:
            self.ids.add(schema_id)
            self.prefixes.add(prefix_of(schema_id))
        return found

    def reason_against(self, schema_id: int) -> str:
        """Why a schema is not allowed."""
        if schema_id not in self._state.schemas:
            return f"schema {schema_id} is not registered"
        if self._rule.strategy == "topic":
            subjects = " or ".join(subjects_of(self._topic, is_key=self._rule.is_key))
        else:
            subjects = "topic-record" if self._rule.strategy == "topic-record" else "record"
            return f"schema {schema_id} is not registered under a subject of the strategy {subjects}"
        return f"schema {schema_id} is not registered under {subjects}"


class AllowedSchemas:
    """What every topic allows."""

    def __init__(self) -> None:
        self._changes = -1
        self._state: RegistryState | None = None
        self._known: dict[tuple[str, Rule], Allowed] = {}

    def of(self, state: RegistryState, topic: str, rule: Rule) -> Allowed:
        """What a topic allows now."""
        if state is not self._state or state.changes != self._changes or len(self._known) > _TOPICS_MAX:
            self._state, self._changes = state, state.changes
            self._known.clear()
        found = self._known.get((topic, rule))
        if found is None:
            found = self._known[topic, rule] = Allowed(state, topic, rule)
        return found
