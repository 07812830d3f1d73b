"""One pipeline file on local[*], on a standalone cluster and on a server of Spark Connect: the same rows everywhere."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.command import RUN_SECONDS_MAX, run
from tests.e2e.spark.kafka_truth import truth
from tests.e2e.spark.test_lake_merge import catalog_of, events, send
from tests.e2e.spark.test_spark_cluster import cluster, free_port

import goqueue
from goqueue.pipeline.spark.stand_in import write_stand_in

pyspark = pytest.importorskip("pyspark", reason="needs goqueue[spark]")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FILE = """
name: everywhere
broker: {broker}
checkpoint: {home}/checkpoint
trigger: available-now
dead_letters: changes.bad
shared_reads: true
settings: {{spark.sql.shuffle.partitions: "2", spark.executor.memory: 512m, spark.driver.host: 127.0.0.1}}
sources:
  changes: {{topic: changes, max_per_batch: 60}}
steps:
  - debezium: {{name: opened, schema: "id BIGINT, name STRING, city STRING"}}
  - expect: {{name: checked, rules: {{has_name: "_op = 'd' OR name IS NOT NULL"}}}}
sinks:
  - delta: {{name: current, path: {home}/lake, mode: cdc, keys: [id]}}
  - iceberg: {{name: all, table: lake.rows, catalog: {catalog}, from: checked}}
  - topic: {{name: copy, topic: copy, key: id}}
"""


@contextmanager
def connect_server(home: Path) -> Iterator[str]:
    """A server of Spark Connect on this machine, in a process of its own."""
    port = free_port()
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [
        str(submit),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master",
        "local[2]",
    ]
    command += ["--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false"]
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(write_stand_in(home / "python")),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with (home / "connect.log").open("w") as log:
        server = subprocess.Popen([*command, "spark-internal"], stdout=log, stderr=log, env=environment, cwd=home)
        try:
            deadline = time.monotonic() + RUN_SECONDS_MAX
            while not _answers(port):
                assert server.poll() is None, (home / "connect.log").read_text()[-3000:]
                assert time.monotonic() < deadline, (home / "connect.log").read_text()[-3000:]
                time.sleep(0.2)
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(60)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def submit(home: Path, file: Path, master: str) -> None:
    """`spark-submit --py-files`, by a Python that finds all packages but this one."""
    source = Path(goqueue.__file__).parents[1]
    with zipfile.ZipFile(home / "goqueue.zip", "w") as packed:
        for package in ("goqueue", "pyspark_goqueue"):
            for one in (source / package).rglob("*"):
                if one.is_file() and "__pycache__" not in one.parts:
                    packed.write(one, one.relative_to(source))
    packages = Path(pyspark.__file__).parents[1]
    python = home / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o700)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PYTHONPATH": str(packages),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    without = subprocess.run([python, "-c", "import goqueue"], env=environment, capture_output=True, check=False)
    assert b"No module named 'goqueue'" in without.stderr
    main = home / "main.py"
    main.write_text((source / "goqueue" / "pipeline" / "declared" / "main.py").read_text())
    words = ["--master", master, "--py-files", home / "goqueue.zip", main, file]
    done = subprocess.run(
        [packages / "pyspark" / "bin" / "spark-submit", *map(str, words)],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]


MASTERS: dict[str, Callable[[Path], Any]] = {
    "local": lambda _home: nullcontext("local[2]"),
    "submit": lambda _home: nullcontext("local[2]"),
    "standalone": cluster,
    "connect": connect_server,
}


@pytest.mark.parametrize("where", MASTERS)
def test_the_same_file_writes_the_same_rows_wherever_spark_runs(
    where: str, start_broker: Callable[[], BrokerProcess], tmp_path: Path
) -> None:
    from deltalake import DeltaTable
    from pyiceberg.catalog import load_catalog

    broker = start_broker()
    with RawClient(broker.kafka) as raw:
        for topic in ("changes", "changes.bad", "copy"):
            raw.create_topic(topic, 2)
    sent, table = events(150)
    send(broker, "changes", sent)
    changes = [json.loads(value) for _, value in sent if value is not None and '"t"' not in value]
    file = tmp_path / "everywhere.yaml"
    file.write_text(FILE.format(broker=broker.kafka, home=tmp_path, catalog=json.dumps(catalog_of(tmp_path))))

    with MASTERS[where](tmp_path) as master:
        for _ in range(2):
            # The second run has nothing to do, and knows it.
            if where == "submit":
                submit(tmp_path, file, master)
            else:
                run(tmp_path, "pipeline", "run", file, "--quiet", "--master", master)

    rows = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [table[key] for key in sorted(table)]
    everything = load_catalog(**catalog_of(tmp_path)).load_table("lake.rows").scan().to_arrow()
    assert everything.num_rows == len(changes)
    assert len(truth(broker.kafka, "copy", 2)) == len(changes)
    assert len(truth(broker.kafka, "changes.bad", 2)) == 1
    kept = [json.loads(line) for line in (tmp_path / "checkpoint" / "history.jsonl").read_text().splitlines()]
    assert sum(row["expectations"].get("checked", {}).get("rows", 0) for row in kept) == len(changes)
