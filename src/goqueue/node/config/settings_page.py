"""docs/reference/settings.md, written from the settings themselves: `make docs` puts it in place."""

from __future__ import annotations

from dataclasses import fields

from goqueue.config import Config, documented_settings
from goqueue.metadata.settings.topic_setting import TopicSetting
from goqueue.metadata.settings.topic_settings import TOPIC_SETTINGS

_HEAD = """\
# Settings

This page is made from the code (`make docs`), and a test fails when it is not current.

A setting has a default; a settings file (`goqueue server --config FILE`, `.toml` or `.yaml`)
overrides it, a variable of the environment overrides the file, and the command line overrides
both: by its own option where there is one, else by `--set section.name=value`. A setting that
nobody knows is an error. All problems are reported at once, and then nothing has been touched.

```toml
[broker]
data_dir = "/var/lib/goqueue"

[log]
retention_ms = 86_400_000
```

Listeners are reachable from this machine only. A listener on another address needs TLS and
authentication ([Security](../howto/security.md)); without them it is refused until
`listeners.allow_insecure` is set.

Settings of the node hold until it is restarted: Kafka's tools show them (resource type BROKER) and are
refused when they alter them, with the setting of the file to change. Settings of topics, and those of
groups, are altered while the node runs; most of `log` is only the default of a topic's own setting.
"""

_TOPICS = """
## Topics

Settings of a topic are given when it is created and changed later, by Kafka's tools (`kafka-configs`), by
`PATCH /topics/{topic}` or by `goqueue topic alter`. A default that names a setting of the node is that setting's
value. Settings of Kafka that mean nothing here are taken, so that what creates topics on Kafka works unchanged:
values other than the default are logged, and HTTP answers list them in `warnings`.

| setting | default | meaning |
|---|---|---|
"""


def settings_page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for section in fields(Config):
        doc = (type(section.default).__doc__ or "").strip()
        parts.append(f"\n## {section.name}\n\n{doc}\n\n| setting | default | variable | meaning |\n|---|---|---|---|\n")
        parts += [
            f"| `{name}` | {_shown(default)} | `{variable}` | {_meaning(section.default, name, text)} |\n"
            for owner, name, default, variable, text in documented_settings()
            if owner == section.name
        ]
    return "".join([*parts, _TOPICS, *map(_topic_row, TOPIC_SETTINGS.values())])


def _topic_row(row: TopicSetting) -> str:
    default = row.node_name or row.default
    note = "" if row.no_effect is None else f" Taken with a warning: {row.no_effect}."
    return f"| `{row.name}` | {_shown(default)} | {row.doc}{note} Allowed: {row.rule.allowed}. |\n"


def _shown(default: object) -> str:
    if default in ("", ()):
        return "empty"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _meaning(section: object, name: str, text: str) -> str:
    metadata = next(one.metadata for one in fields(section) if one.name == name)  # type: ignore[arg-type]
    notes = []
    if "flag" in metadata:
        notes.append(f"Option `{metadata['flag']}`.")
    if "choices" in metadata:
        notes.append(f"One of {', '.join(f'`{choice}`' for choice in metadata['choices'])}.")
    if "minimum" in metadata:
        notes.append(f"At least {metadata['minimum']}.")
    if "maximum" in metadata:
        notes.append(f"At most {metadata['maximum']}.")
    return " ".join([text, *notes])


if __name__ == "__main__":
    print(settings_page(), end="")  # noqa: T201
