"""Lake tables in an object store: a real S3 server process, two writers at once, and kills that leave no files."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
pytest.importorskip("pyspark", reason="needs goqueue[spark]")
deltalake = pytest.importorskip("deltalake", reason="needs goqueue[lake]")
pytest.importorskip("pyiceberg", reason="needs goqueue[lake]")
pytest.importorskip("moto", reason="needs moto[server]")

from tests.lossy_way import lossy_way  # noqa: E402
from tests.s3_server import s3_server  # noqa: E402
from tests.unit.pipeline.lake.test_lake_append import frame, numbers  # noqa: E402

from goqueue.pipeline.declared.form.sinks import DeltaSink, IcebergSink  # noqa: E402
from goqueue.pipeline.declared.running.tables import lake_writer, of_query  # noqa: E402

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a server with an empty bucket `lake`."""
    with s3_server("lake") as address:
        yield address


def options(s3: str) -> dict[str, str]:
    keys = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_REGION": "us-east-1"}
    return {**keys, "AWS_ENDPOINT_URL": s3, "AWS_ALLOW_HTTP": "true"}


def catalog(s3: str, folder: Path) -> dict[str, str]:
    return {
        "name": "test",
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": "s3://lake/house",
        "s3.endpoint": s3,
        "s3.access-key-id": "tests",
        "s3.secret-access-key": "tests",
        "s3.region": "us-east-1",
    }


def keys(s3: str, prefix: str) -> list[str]:
    """The objects below a prefix, as the server lists them."""
    import re

    with urllib.request.urlopen(f"{s3}/lake?list-type=2&prefix={prefix}") as reply:
        return re.findall(r"<Key>([^<]+)</Key>", reply.read().decode())


def delta_numbers(s3: str, name: str) -> list[int]:
    return numbers(deltalake.DeltaTable(f"s3://lake/{name}", storage_options=options(s3)).to_pyarrow_table())


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_delta_table_in_a_store_has_each_batch_once_and_no_orphans(
    s3: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def writer() -> Any:
        return of_query(
            lake_writer(DeltaSink(path=f"{scheme}://lake/{scheme}", options=options(s3), partition_by=["town"])), ""
        )

    def rows(*values: int) -> Any:
        return frame("query", *values, town=pa.array(["Köln", None][: len(values)]))

    write = writer()
    write(rows(1, 2), 0)
    write(rows(1, 2), 0)
    with monkeypatch.context() as patched:

        def stop(step: str, _batch: int) -> None:
            if step == "lake-files":
                raise KeyboardInterrupt

        patched.setattr("goqueue.pipeline.lake.append.reached", stop)
        with pytest.raises(KeyboardInterrupt):
            write(rows(3), 1)
    before = [key for key in keys(s3, f"{scheme}/") if key.endswith(".parquet")]

    writer()(rows(3), 1)

    assert delta_numbers(s3, scheme) == [1, 2, 3]
    assert len(before) == 3
    assert len([key for key in keys(s3, f"{scheme}/") if key.endswith(".parquet")]) == 3
    assert keys(s3, f"{scheme}/_goqueue/") == []


def test_two_writers_at_once_lose_nothing(s3: str) -> None:
    problems: list[BaseException] = []

    def work(query: str, first: int) -> None:
        try:
            write = of_query(lake_writer(DeltaSink(path="s3://lake/both", options=options(s3))), "")
            for batch in range(5):
                write(frame(query, first + batch), batch)
        except BaseException as error:  # noqa: BLE001 - told by the test
            problems.append(error)

    workers = [Thread(target=work, args=(query, first)) for query, first in (("one", 0), ("other", 100))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)

    assert problems == []
    assert delta_numbers(s3, "both") == [*range(5), *range(100, 105)]


@pytest.mark.parametrize("batch", [0, 1])
def test_a_commit_whose_answer_the_store_lost_is_in_the_table_with_its_files(
    s3: str, batch: int, tmp_path: Path
) -> None:
    name, lost = f"lost-{batch}", tmp_path / "lost"
    with lossy_way(s3, f"_delta_log/0000000000000000000{batch}.json", lost) as way:
        write = of_query(lake_writer(DeltaSink(path=f"s3://lake/{name}", options=options(way))), "")
        for number in range(3):
            write(frame("query", number), number)

    # It was stored, asked for again by deltalake itself, and refused then as there already.
    assert lost.read_text() == "200"
    assert delta_numbers(s3, name) == [0, 1, 2]
    assert len([key for key in keys(s3, f"{name}/") if key.endswith(".parquet")]) == 3
    assert keys(s3, f"{name}/_goqueue/") == []


def test_an_iceberg_table_in_a_store_has_each_batch_once(s3: str, tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    settings = catalog(s3, tmp_path)
    write = of_query(lake_writer(IcebergSink(table="lake.events", catalog=settings)), "")
    for batch in (0, 0, 1):
        write(frame("query", batch), batch)

    found = load_catalog(**settings).load_table("lake.events")
    assert numbers(found.scan().to_arrow()) == [0, 1]
    # Arrow keeps an empty object in place of a folder whose last file was removed.
    assert [key for key in keys(s3, "house/") if "goqueue-writes" in key and not key.endswith("/")] == []
