"""Addresses that nothing here can write to are refused by everything that takes a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from goqueue.errors import InvalidRequest
from goqueue.pipeline.backup import job
from goqueue.pipeline.declared.form.problems import PipelineInvalid
from goqueue.pipeline.declared.load import load_values
from goqueue.pipeline.declared.running.run_files import RunFiles
from goqueue.pipeline.jobs.export import export
from goqueue.pipeline.jobs.import_files import check_files
from goqueue.pipeline.jobs.report import Report
from goqueue.pipeline.paths import local_path
from goqueue.pipeline.source.options import parse_source_options

# Some can be opened by nothing here; the others not where a folder of this machine is needed.
UNKNOWN = ["hdfss://h/x", "s4://bucket/x", "S3B://bucket/x"]
STORES = ["s3a://bucket/x", "gs://bucket/x", "s3://bucket", "abfs://c@a/x", "S3A://bucket/x"]


def silent(_done: int, _total: int) -> None:
    """A plan has no progress."""


@pytest.mark.parametrize("given", ["file:///data/x y", "file:/data/x y", "file://localhost/data/x%20y", "/data/x y"])
def test_a_file_address_is_a_local_path(given: str) -> None:
    assert local_path(given, "to") == Path("/data/x y")
    assert local_path(Path(given), "to") in (Path("/data/x y"), Path("/localhost/data/x y"))


@pytest.mark.parametrize("given", ["backups", "./s3a:/x", "../x", "C:/x", "a:b"])
def test_other_paths_stay_as_they_are(given: str) -> None:
    assert local_path(given, "to") == Path(given)


@pytest.mark.parametrize("address", UNKNOWN)
def test_every_job_refuses_an_unknown_scheme_and_leaves_no_folder(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "metadata").mkdir(parents=True)
    data = Path("data")
    wanted = {"path": "data", "subscribe": "x"}

    for work in (
        lambda: job.backup(None, data, address, ask_instant=lambda: None, show=silent),
        lambda: job.restore(None, address, None, Path("new"), show=silent),
        lambda: job.verify(None, address, None, show=silent),
        lambda: export(None, wanted, address, show=silent),
        lambda: export(None, wanted, Path(address), show=silent),
        lambda: check_files(address),
    ):
        with pytest.raises(InvalidRequest, match=rf"^{address}: there is no scheme") as refused:
            work()
        assert "file://, s3://, s3a://" in (refused.value.hint or "")
    assert [one.name for one in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("address", [*UNKNOWN, *STORES])
def test_where_a_folder_of_this_machine_is_needed_every_address_is_refused(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "metadata").mkdir(parents=True)
    bad = Path(address)

    for work in (
        lambda: job.backup(None, bad, Path("to"), ask_instant=lambda: None, show=silent),
        lambda: job.restore(None, Path("from"), None, bad, show=silent),
        lambda: Report("any").write(bad),
        lambda: parse_source_options({"path": address, "subscribe": "x"}),
    ):
        with pytest.raises(InvalidRequest, match=r"is not supported") as refused:
            work()
        assert "file://" in (refused.value.hint or "")
    assert [one.name for one in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("address", ["s3a://bucket/x", "gs://bucket/x", "nfs://host/x"])
def test_a_pipeline_with_addresses_is_refused_at_validation(address: str) -> None:
    values = {
        "name": "p",
        "checkpoint": address,
        "sources": {"t": {"topic": "t"}, "f": {"files": address}},
        "sinks": [{"parquet": {"path": address, "from": "t"}}, {"delta": {"path": "ftp://x/y", "from": "t"}}],
    }

    with pytest.raises(PipelineInvalid) as refused:
        load_values(values)

    # Pipelines keep their state in stores as well; whether Spark opens one is seen when it has started.
    assert {one.path for one in refused.value.found} == {
        *(["checkpoint"] if address.startswith("nfs") else []),
        "sources.f.files",
        "sinks[0].parquet.path",
        "sinks[1].delta.path",
    }


def test_addresses_that_somebody_can_open_pass_and_the_state_lies_at_a_file_address(tmp_path: Path) -> None:
    values = {
        "name": "p",
        "checkpoint": f"file://{tmp_path}/state",
        "settings": {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.2"},
        "sources": {"t": {"topic": "t"}},
        "sinks": [
            {"parquet": {"path": "s3a://bucket/x"}},
            {"parquet": {"path": "hdfs://h/x", "name": "second"}},
            {"delta": {"path": "s3://bucket/x"}},
        ],
    }
    pipeline = load_values(values)

    with RunFiles(pipeline).held():
        assert (tmp_path / "state" / "run.lock").exists()
    assert pipeline.checkpoint_path == f"{tmp_path}/state"


def test_the_command_line_refuses_a_report_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from goqueue.cli.main import app

    monkeypatch.chdir(tmp_path)
    words = ["jobs", "verify", "--from", "nowhere", "--report", "s3a://bucket/report"]
    done = CliRunner().invoke(app, words)

    assert done.exit_code == 1
    assert "--report: s3a://bucket/report cannot be used here" in done.output
    assert list(tmp_path.iterdir()) == []


def test_bulk_jobs_refuse_spark_connect_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from goqueue.cli.main import app

    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(
        app, ["jobs", "audit", "orders", "--broker", "127.0.0.1:1", "--master", "sc://host:15002"]
    )

    assert done.exit_code != 0
    assert "Spark Connect does not offer" in done.output
    assert list(tmp_path.iterdir()) == []
