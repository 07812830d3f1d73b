"""Where settings come from, which wins, and how each wrong one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from goqueue.config import Config, documented_settings
from goqueue.errors import ConfigError
from goqueue.node.config.load_config import CLIENT_VARIABLES, load


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def problems(
    *, file: str | None = None, env: dict[str, str] | None = None, flags: dict[str, str] | None = None
) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(file, env or {}, flags or {})
    return caught.value.problems


def test_without_any_source_the_defaults_hold() -> None:
    assert load(None, {"PATH": "/bin", "GOQUEUER": "x"}, {}) == Config()


def test_flags_win_over_variables_and_those_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_text("[broker]\nnode_id = 2\ndefault_partitions = 7\n[log]\nsegment_bytes = 1_048_576\n")
    env = {"GOQUEUE_BROKER_NODEID": "3", "GOQUEUE_LOG_SEGMENT_BYTES": "2048"}
    config = load(str(file), env, {"broker.node_id": "4"})
    assert config.broker.node_id == 4
    assert config.log.segment_bytes == 2048
    assert config.broker.default_partitions == 7
    assert config.broker.data_dir == "./data"


@pytest.mark.parametrize("suffix", ["yaml", "yml"])
def test_yaml_says_the_same_as_toml(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"goqueue.{suffix}"
    file.write_text("broker:\n  auto_create_topics: false\nlog:\n  compaction_dirty_ratio: 1\n")
    config = load(str(file), {}, {})
    assert config.broker.auto_create_topics is False
    assert config.log.compaction_dirty_ratio == 1.0


def test_an_empty_yaml_file_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    assert load("empty.yaml", {}, {}) == Config()


@pytest.mark.parametrize("section_name_variable", [(row[0], row[1], row[3]) for row in documented_settings()])
def test_every_documented_variable_sets_its_setting(section_name_variable: tuple[str, str, str]) -> None:
    """Documented settings that nothing read."""
    section, name, variable = section_name_variable
    default = getattr(getattr(Config(), section), name)
    other: object = {bool: not default, str: default, int: default, float: default, tuple: default}[type(default)]
    if isinstance(default, float):
        other = default / 2 + 0.5
    if isinstance(default, int) and not isinstance(default, bool):
        other = default + 1
    if variable == "GOQUEUE_BROKER_DATADIR":
        other = "elsewhere"
    elif name == "client_certificates":
        other = "optional"
    elif name == "named":
        other = ("more=kafka://127.0.0.1:7777",)
    elif section == "listeners" and isinstance(default, str):
        other = "127.0.0.1:7777"
    config = load(None, {variable: ",".join(other) if isinstance(other, tuple) else str(other)}, {})
    assert getattr(getattr(config, section), name) == other


@pytest.mark.parametrize(
    ("word", "value"), [("true", True), ("YES", True), ("on", True), ("1", True), ("False", False), ("off", False)]
)
def test_the_words_for_yes_and_no(word: str, value: bool) -> None:
    config = load(None, {"GOQUEUE_BROKER_AUTO_CREATE_TOPICS": word}, {})
    assert config.broker.auto_create_topics is value


def test_a_name_that_is_like_none_of_ours_is_not_guessed_at() -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, {"GOQUEUE_FOO": "1"}, {})
    assert caught.value.problems == ["GOQUEUE_FOO: unknown setting"]


def test_variables_of_the_client_side_are_left_alone() -> None:
    assert load(None, dict.fromkeys(CLIENT_VARIABLES, "x"), {}) == Config()


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"GOQUEUE_BROKER_DATA_DIR": "x"}, "GOQUEUE_BROKER_DATA_DIR: unknown setting; did you mean 'GOQUEUE_BROKER_DA"),
        ({"GOQUEUE_ZZZ": "x"}, "GOQUEUE_ZZZ: unknown setting"),
        ({"GOQUEUE_BROKER_NODEID": "one"}, "GOQUEUE_BROKER_NODEID: 'one' is not an integer"),
        ({"GOQUEUE_BROKER_NODEID": "1.5"}, "GOQUEUE_BROKER_NODEID: '1.5' is not an integer"),
        ({"GOQUEUE_BROKER_NODEID": "-1"}, "GOQUEUE_BROKER_NODEID: -1 is less than 0"),
        ({"GOQUEUE_BROKER_DEFAULT_PARTITIONS": "10001"}, "GOQUEUE_BROKER_DEFAULT_PARTITIONS: 10001 is more than 10000"),
        ({"GOQUEUE_BROKER_AUTO_CREATE_TOPICS": "maybe"}, "'maybe' is not true or false"),
        ({"GOQUEUE_LOG_COMPACTION_DIRTY_RATIO": "nan%"}, "'nan%' is not a number"),
        ({"GOQUEUE_LOG_COMPACTION_DIRTY_RATIO": "1.1"}, "1.1 is more than 1.0"),
        ({"GOQUEUE_BROKER_DATADIR": ""}, "GOQUEUE_BROKER_DATADIR: name a directory"),
        ({"GOQUEUE_BROKER_DATADIR": "/dev/null/data"}, "/dev/null is not a directory"),
        ({"GOQUEUE_LISTENERS_KAFKA": "9092"}, "GOQUEUE_LISTENERS_KAFKA: '9092': give host:port"),
        ({"GOQUEUE_LISTENERS_KAFKA": "::1:9092"}, "put an IPv6 address in brackets"),
        ({"GOQUEUE_LISTENERS_HTTP": "127.0.0.1:99999"}, "GOQUEUE_LISTENERS_HTTP: '127.0.0.1:99999'"),
        ({"GOQUEUE_LISTENERS_KAFKA": "10.0.0.1:9092"}, "set listeners.allow_insecure to accept the risk"),
        ({"GOQUEUE_LISTENERS_HTTP": ":8080"}, "0.0.0.0:8080 can be reached from other machines"),
        ({"GOQUEUE_LISTENERS_HTTP": "127.0.0.1:9092"}, "is the address of the listener"),
        (
            {"GOQUEUE_LISTENERS_ADVERTISED_KAFKA": "0.0.0.0:9092"},
            "GOQUEUE_LISTENERS_ADVERTISED_KAFKA: 0.0.0.0 is not an address that a client can connect to",
        ),
        ({"GOQUEUE_LISTENERS_ADVERTISED_KAFKA": "[::]:9092"}, ":: is not an address that a client can connect to"),
        ({"GOQUEUE_LISTENERS_ADVERTISED_KAFKA": "broker:0"}, "a client cannot connect to port 0"),
        (
            {"GOQUEUE_LISTENERS_KAFKA": "0.0.0.0:9092", "GOQUEUE_LISTENERS_ALLOW_INSECURE": "true"},
            "listeners.advertised_kafka: say which address clients are to use",
        ),
        ({"GOQUEUE_GROUPS_SESSION_TIMEOUT_MS": "999999999"}, "GOQUEUE_GROUPS_SESSION_TIMEOUT_MS: is outside"),
        ({"GOQUEUE_GROUPS_SESSION_TIMEOUT_MS_MIN": "9999999"}, "is more than groups.session_timeout_ms_max"),
        ({"GOQUEUE_GROUPS_HEARTBEAT_INTERVAL_MS": "30000"}, "must be less than groups.session_timeout_ms"),
        ({"GOQUEUE_LIMITS_REQUEST_BYTES_MAX": "1024"}, "no such batch could arrive"),
    ],
)
def test_a_wrong_variable_is_named_with_its_reason(env: dict[str, str], problem: str) -> None:
    found = problems(env=env)
    assert len(found) == 1
    assert problem in found[0]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.toml", "[broker]\nnode = 1\n", "unknown setting 'broker.node'; did you mean 'broker.node_id'?"),
        ("a.toml", "[brokr]\nnode_id = 1\n", "unknown section 'brokr'; did you mean 'broker'?"),
        ("a.toml", "broker = 1\n", "broker holds settings by name, not one value"),
        ("a.toml", "[broker\n", "a.toml: Expected"),
        ("a.toml", '[broker]\nnode_id = "x"\n', "a.toml: broker.node_id: 'x' is not an integer"),
        ("a.toml", "[broker]\nnode_id = true\n", "a.toml: broker.node_id: True is not an integer"),
        ("a.toml", "[broker]\ndata_dir = 7\n", "a.toml: broker.data_dir: 7 is not text"),
        ("a.yaml", "- broker\n", "the file must hold sections by name"),
        ("a.yaml", "broker: {node_id: [", "a.yaml: while parsing"),
        ("a.yaml", "1: {x: 2}\n", "unknown section 1"),
        ("a.json", "{}", "a settings file ends in .toml, .yaml or .yml"),
    ],
)
def test_a_wrong_file_is_named_with_its_reason(tmp_path: Path, name: str, content: str, problem: str) -> None:
    (tmp_path / name).write_text(content)
    found = problems(file=name)
    assert len(found) == 1
    assert problem in found[0]


def test_a_missing_file_is_a_problem() -> None:
    assert problems(file="missing.toml") == ["missing.toml: No such file or directory"]


def test_flags_are_named_as_they_were_typed() -> None:
    found = problems(flags={"broker.node_id": "x", "log.segment_bytes": "1", "log.segment_byte": "1"})
    assert found == [
        "--set log.segment_byte: unknown setting; did you mean 'log.segment_bytes'?",
        "--node-id: 'x' is not an integer",
        "--set log.segment_bytes: 1 is less than 1024",
    ]


def test_all_problems_of_all_sources_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[broker]\nnode = 1\ndefault_partitions = 0\n")
    found = problems(
        file="a.toml",
        env={"GOQUEUE_LISTENERS_KAFKA": "nonsense", "GOQUEUE_LIMIT": "1"},
        flags={"listeners.http": "10.1.1.1:80", "broker.data_dir": " "},
    )
    assert len(found) == 6


def test_loading_touches_nothing(tmp_path: Path) -> None:
    load(None, {"GOQUEUE_BROKER_DATADIR": str(tmp_path / "not/yet/there")}, {})
    assert list(tmp_path.iterdir()) == []


def test_beyond_loopback_is_allowed_when_the_risk_is_accepted() -> None:
    config = load(
        None,
        {
            "GOQUEUE_LISTENERS_KAFKA": "0.0.0.0:9092",
            "GOQUEUE_LISTENERS_ADVERTISED_KAFKA": "broker.example:9092",
            "GOQUEUE_LISTENERS_ALLOW_INSECURE": "yes",
        },
        {},
    )
    assert config.listeners.kafka == "0.0.0.0:9092"


def test_two_free_ports_are_no_conflict() -> None:
    load(None, {"GOQUEUE_LISTENERS_KAFKA": "127.0.0.1:0", "GOQUEUE_LISTENERS_HTTP": "127.0.0.1:0"}, {})


def test_variables_that_kubernetes_injects_for_a_service_are_ignored() -> None:
    injected = {
        "GOQUEUE_SERVICE_HOST": "10.96.0.12",
        "GOQUEUE_SERVICE_PORT": "9092",
        "GOQUEUE_SERVICE_PORT_KAFKA": "9092",
        "GOQUEUE_PORT": "tcp://10.96.0.12:9092",
        "GOQUEUE_PORT_9092_TCP": "tcp://10.96.0.12:9092",
        "GOQUEUE_PORT_9092_TCP_PROTO": "tcp",
        "GOQUEUE_PORT_9092_TCP_PORT": "9092",
        "GOQUEUE_PORT_9092_TCP_ADDR": "10.96.0.12",
        "GOQUEUE_HEADLESS_SERVICE_HOST": "None",
        "GOQUEUE_HEADLESS_PORT": "tcp://10.96.0.13:8080",
    }
    assert load(None, injected | {"GOQUEUE_BROKER_NODEID": "3"}, {}).broker.node_id == 3


def test_a_port_variable_of_a_person_is_still_an_unknown_setting() -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, {"GOQUEUE_PORT": "9092"}, {})
    assert caught.value.problems == ["GOQUEUE_PORT: unknown setting"]
