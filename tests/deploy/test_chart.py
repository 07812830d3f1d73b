"""The chart: linted and rendered by helm, and every object checked against Kubernetes' own schemas."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml
from tests.deploy.tools import DEPLOY, need

from goqueue.node.config.load_config import load

CHART = str(DEPLOY / "helm" / "goqueue")
ACCEPTED = ("--set", "listeners.acceptInsecure=true")
EVERYTHING = (
    *ACCEPTED,
    "--set=backup.enabled=true,backup.claimName=backups",
    "--set=serviceMonitor.enabled=true",
    "--set=antiAffinity=required,storage.className=fast,settings.log.retention_ms=60000",
    "--set=image.tag=1.4.0,image.pullSecrets[0].name=registry,nodeSelector.disk=ssd,tolerations[0].key=broker",
    "--api-versions=monitoring.coreos.com/v1/ServiceMonitor",
)
# Kubernetes' versions whose schemas the package holds, from the oldest that the chart admits.
KUBERNETES = ("1.25", "1.31")
# The part of the operator's CustomResourceDefinition that the chart uses.
SERVICE_MONITOR = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["endpoints", "selector"],
            "properties": {
                "selector": {"type": "object", "required": ["matchLabels"]},
                "endpoints": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "port": {"type": "string"},
                            "path": {"type": "string"},
                            "interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"},
                        },
                    },
                },
            },
        }
    },
}


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([need("helm"), *arguments], capture_output=True, text=True, check=False)


def rendered(*options: str) -> list[dict[str, Any]]:
    done = helm("template", "goqueue", CHART, "--namespace=messaging", "--kube-version=1.31.0", *options)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def one_of(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [one for one in objects if one["kind"] == kind]
    return found


def test_helm_finds_nothing_to_complain_about() -> None:
    done = helm("lint", CHART, "--strict", *ACCEPTED)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("options", [ACCEPTED, EVERYTHING], ids=["defaults", "everything"])
def test_kubernetes_schemas_accept_every_object(options: tuple[str, ...], version: str) -> None:
    validate = pytest.importorskip("kubernetes_validate").validate

    for one in rendered(*options):
        if one["kind"] != "ServiceMonitor":
            validate(one, version, strict=True)


def test_the_schemas_refuse_a_wrong_object() -> None:
    package = pytest.importorskip("kubernetes_validate")
    broken = one_of(rendered(*ACCEPTED), "StatefulSet")
    broken["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = "kafka"

    with pytest.raises(package.ValidationError):
        package.validate(broken, KUBERNETES[-1], strict=True)


def test_without_acceptance_of_the_risk_nothing_is_rendered() -> None:
    done = helm("template", "goqueue", CHART, "--kube-version=1.31.0")

    assert done.returncode != 0
    assert "--set listeners.acceptInsecure=true" in done.stderr


@pytest.mark.parametrize(
    "option", ["replicas=3", "listenrs.acceptInsecure=true", "antiAffinity=sometimes", "listeners.kafkaPort=80"]
)
def test_values_that_the_chart_does_not_know_are_refused(option: str) -> None:
    done = helm("template", "goqueue", CHART, "--kube-version=1.31.0", *ACCEPTED, "--set", option)

    assert done.returncode != 0
    assert "values don't meet the specifications" in done.stderr


def test_a_backup_needs_a_claim() -> None:
    done = helm("template", "goqueue", CHART, "--kube-version=1.31.0", *ACCEPTED, "--set=backup.enabled=true")

    assert done.returncode != 0
    assert "backup.claimName: name an existing claim" in done.stderr


def test_pods_are_locked_down() -> None:
    objects = rendered(*EVERYTHING)
    pods = [
        one_of(objects, "StatefulSet")["spec"]["template"]["spec"],
        one_of(objects, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"],
    ]

    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_broker_accepts_the_settings_that_the_chart_gives_it(tmp_path) -> None:
    objects = rendered(*EVERYTHING)
    (container,) = one_of(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    settings = tmp_path / "goqueue.yaml"
    settings.write_text(one_of(objects, "ConfigMap")["data"]["goqueue.yaml"])
    environment = {one["name"]: one.get("value", "goqueue-0") for one in container["env"]}
    # Kubernetes replaces references to variables that stand before.
    environment = {name: text.replace("$(POD_NAME)", "goqueue-0") for name, text in environment.items()}

    config = load(str(settings), environment, {})

    assert config.log.retention_ms == 60_000
    assert config.listeners.advertised_kafka == "goqueue-0.goqueue-headless.messaging.svc:9092"


def test_without_settings_the_file_is_accepted_too(tmp_path) -> None:
    settings = tmp_path / "goqueue.yaml"
    settings.write_text(one_of(rendered(*ACCEPTED), "ConfigMap")["data"]["goqueue.yaml"])

    assert load(str(settings), {}, {}) == load(None, {}, {})


def test_the_advertised_name_is_that_of_the_headless_service() -> None:
    objects = rendered(*ACCEPTED)
    services = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "Service"}

    assert services["goqueue-headless"]["clusterIP"] == "None"
    assert one_of(objects, "StatefulSet")["spec"]["serviceName"] == "goqueue-headless"


def test_services_and_policies_select_the_broker_and_not_its_backups() -> None:
    objects = rendered(*EVERYTHING)
    broker = one_of(objects, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    backup = one_of(objects, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
    selectors = [one["spec"]["selector"] for one in objects if one["kind"] == "Service"]
    selectors.append(one_of(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"])
    selectors.append(one_of(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"])

    for selector in selectors:
        assert selector.items() <= broker.items()
        assert not selector.items() <= backup.items()


def test_the_monitor_is_rendered_where_its_kind_is_known_and_selects_one_service() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    objects = rendered(*EVERYTHING)
    monitor = one_of(objects, "ServiceMonitor")

    jsonschema.validate(monitor, SERVICE_MONITOR)

    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [one for one in objects if one["kind"] == "Service" and wanted <= one["metadata"]["labels"].items()]
    assert len(services) == 1
    unknown = rendered(*ACCEPTED, "--set=serviceMonitor.enabled=true")
    assert "ServiceMonitor" not in {one["kind"] for one in unknown}


def test_no_object_holds_a_secret() -> None:
    assert "Secret" not in {one["kind"] for one in rendered(*EVERYTHING)}
