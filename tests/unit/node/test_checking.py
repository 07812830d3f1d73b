"""A cluster is checked before it is started: all that does not fit is told at once."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.etcd_server import free_ports
from typer.testing import CliRunner

from goqueue.cli.cluster.commands import app
from goqueue.config import Config
from goqueue.errors import ConfigError
from goqueue.node.cluster.founding import Manner, NodePlan, found
from goqueue.node.cluster.operations.checking import load_all, machine_problems, misfits
from goqueue.node.cluster.operations.probing import unreached
from goqueue.node.config.addresses import Address

needs_etcd = pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed (apt install etcd-server)")


def founded(folder: Path) -> list[Path]:
    """The settings files of three nodes on free ports of this machine."""
    ports = iter(free_ports(15))
    plan = [NodePlan(node, *(Address("127.0.0.1", next(ports)) for _ in range(5))) for node in (1, 2, 3)]
    return found(folder, plan, Manner(voters=3))


def configs_of(files: list[Path]) -> list[Config]:
    configs, problems = load_all(files)
    assert problems == []
    return list(configs.values())


@needs_etcd
def test_files_as_they_are_written_fit_together(tmp_path: Path) -> None:
    founded(tmp_path / "c")
    done = CliRunner().invoke(app, ["check", str(tmp_path / "c"), "--wait", "0s"])
    assert done.output.strip() == "3 settings files are consistent; this machine can run node 1, 2, 3"


def test_everything_that_does_not_fit_is_told_at_once(tmp_path: Path) -> None:
    files = founded(tmp_path / "c")
    other = tmp_path / "other-secret"
    other.write_text("another secret, long enough\n")
    other.chmod(0o600)
    second, third = files[1].read_text(), files[2].read_text()
    files[1].write_text(second.replace(str(tmp_path / "c" / "secret"), str(other)))
    files[2].write_text(third.replace("node_id = 3", "node_id = 1").replace('token = "', 'token = "x'))
    configs, problems = load_all(files)
    told = "\n".join([*problems, *misfits(configs)])
    assert "broker.node_id 1 is in 2 files" in told
    assert "node2.toml: cluster.secret_file has no secret in common" in told
    assert "node3.toml: metadata.token differs" in told
    with pytest.raises(ConfigError) as refused:
        CliRunner().invoke(app, ["check", str(tmp_path / "c"), "--wait", "0s"], catch_exceptions=False)
    assert len(refused.value.problems) >= 3


def test_an_address_that_is_taken_is_told_with_its_setting(tmp_path: Path) -> None:
    files = founded(tmp_path / "c")
    configs, _ = load_all(files[:1])
    port = int(configs[files[0]].listeners.kafka.rpartition(":")[2])

    async def taken() -> list[str]:
        async with await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", port):
            return [one for one in machine_problems(configs) if "etcd" not in one]

    (problem,) = asyncio.run(taken())
    assert problem.startswith(f"{files[0]}: listeners.kafka cannot listen on 127.0.0.1:{port}: the address is in use")


async def test_machines_that_check_at_the_same_time_reach_each_other(tmp_path: Path) -> None:
    configs = configs_of(founded(tmp_path / "c"))
    found_by = await asyncio.gather(*(unreached([one], wait_s=0.5) for one in configs))
    assert found_by == [[], [], []]


async def test_a_machine_that_is_off_and_one_with_another_secret_are_told(tmp_path: Path) -> None:
    files = founded(tmp_path / "c")
    other = tmp_path / "other-secret"
    other.write_text("another secret, long enough\n")
    other.chmod(0o600)
    files[1].write_text(files[1].read_text().replace(str(tmp_path / "c" / "secret"), str(other)))
    first, second, _ = configs_of(files)
    found_by, _ = await asyncio.gather(unreached([first], wait_s=0.5), unreached([second], wait_s=0.5))
    told = "\n".join(found_by)
    assert told.count("node 2 at") == told.count("has another secret") == 2
    assert told.count("node 3 at") == told.count("cannot be reached") == 2


async def test_another_node_at_an_address_is_told(tmp_path: Path) -> None:
    files = founded(tmp_path / "c")
    files[1].write_text(
        files[1].read_text().replace("node_id = 2", "node_id = 3").replace('"3=', '"x3=').replace('"2=', '"3=')
    )
    files[1].write_text(files[1].read_text().replace('"x3=', '"2='))
    first, second, _ = configs_of(files)
    found_by, _ = await asyncio.gather(unreached([first], wait_s=0.5), unreached([second], wait_s=0.5))
    assert sum("is node 3, by its own settings" in one for one in found_by) == 2
