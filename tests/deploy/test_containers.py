"""Image and compose files, judged without a container engine (`make test-image` builds the image)."""

from __future__ import annotations

import fnmatch
import re
from typing import Any

import pytest
import yaml
from tests.deploy.tools import DEPLOY, ROOT

from goqueue.node.config.load_config import load

DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text()


def compose(name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / name).read_text())
    return parsed


def test_there_is_one_dockerfile() -> None:
    assert [path.name for path in DEPLOY.rglob("Dockerfile*")] == ["Dockerfile"]


def test_the_image_runs_as_a_numbered_user_and_checks_its_health_with_the_tool_it_holds() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]

    assert "\nUSER 10001:10001\n" in final
    assert re.search(r'HEALTHCHECK .*\\\n    CMD \["goqueue-cli", "health"', final)
    assert "\nSTOPSIGNAL SIGTERM\n" in final


def test_the_image_does_not_listen_beyond_loopback_by_itself() -> None:
    environment = dict(re.findall(r"(GOQUEUE_\w+)=(\S+)", DOCKERFILE))

    assert environment == {"GOQUEUE_BROKER_DATADIR": "/var/lib/goqueue"}
    assert not load(None, environment, {}).listeners.allow_insecure


def test_what_the_image_copies_is_in_the_build_context_and_nothing_else_is() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    wanted = {line[1:] for line in lines if line.startswith("!")}
    copied = set(re.findall(r"[\w.]+", " ".join(re.findall(r"^COPY (?!--)(.+) \./\S*$", DOCKERFILE, re.MULTILINE))))

    assert "*" in lines
    assert copied == wanted
    assert all((ROOT / name).exists() for name in wanted)


@pytest.mark.parametrize("secret", [".env", ".env.production", "tls.key", "cert.pem"])
def test_secrets_beside_the_sources_stay_out_of_the_build_context(secret: str) -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    last_wanted = max(number for number, line in enumerate(lines) if line.startswith("!"))
    excluded = [line.removeprefix("**/") for line in lines[last_wanted:] if not line.startswith("!")]

    assert any(fnmatch.fnmatch(secret, pattern) for pattern in excluded)


def test_the_broker_accepts_the_settings_of_the_compose_file() -> None:
    service = compose("single.yaml")["services"]["goqueue"]

    config = load(None, service["environment"], {})

    assert config.listeners.kafka == "0.0.0.0:9092"
    assert config.listeners.advertised_kafka == "127.0.0.1:9092"


@pytest.mark.parametrize("name", ["single.yaml", "monitored.yaml"])
def test_every_published_port_is_on_loopback(name: str) -> None:
    ports = [port for service in compose(name)["services"].values() for port in service.get("ports", [])]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_container_is_locked_down() -> None:
    service = compose("single.yaml")["services"]["goqueue"]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_password_of_grafana_has_no_default() -> None:
    given = compose("monitored.yaml")["services"]["grafana"]["environment"]["GF_SECURITY_ADMIN_PASSWORD"]

    assert given.startswith("${GRAFANA_PASSWORD:?")


def test_prometheus_scrapes_the_service_of_the_compose_file() -> None:
    (job,) = compose("prometheus.yaml")["scrape_configs"]

    assert job["static_configs"] == [{"targets": ["goqueue:8080"]}]
    assert "goqueue" in compose("single.yaml")["services"]


def test_every_file_that_a_compose_file_mounts_is_there() -> None:
    volumes = [one for service in compose("monitored.yaml")["services"].values() for one in service["volumes"]]
    files = [one.partition(":")[0] for one in volumes if one.startswith("./")]

    assert len(files) == 2
    assert all((DEPLOY / "compose" / name).exists() for name in files)
