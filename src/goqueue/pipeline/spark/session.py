"""A SparkSession with settings that suit this source: fast transfer, a quiet console, no litter."""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from goqueue.backup.whole import is_alive
from goqueue.pipeline.spark.java import find_java
from goqueue.pipeline.spark.worker_heap import ARROW_KEEPS_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.buffer.size": "1048576",
        # Workers keep Arrow's memory for ten seconds. By default it goes back to the system while a batch is sent,
        # and is got again page by page for the next.
        f"spark.executorEnv.{ARROW_KEEPS_MS}": "10000",
        # A column of headers goes from the JVM to Python in quadratic time with the default.
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
    }
)
_LOG4J = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.streaming.name = org.apache.spark.sql.execution.streaming
logger.streaming.level = off
logger.writing.name = org.apache.spark.sql.execution.datasources.v2
logger.writing.level = off
logger.python.name = org.apache.spark.sql.execution.python
logger.python.level = off
logger.tasks.name = org.apache.spark.scheduler
logger.tasks.level = off
logger.executor.name = org.apache.spark.executor
logger.executor.level = off
# Where Spark's shell looks for a level: if it is another than the root's, two lines tell so at every start.
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
"""
_CONNECT = "sc://"
# Settings of SQL that a server has from its start.
_STATIC = ("spark.sql.warehouse.", "spark.sql.extensions", "spark.sql.catalog")
# Settings whose values nobody may see, as by Spark's own rule for its pages (spark.redaction.regex), and keys of Azure.
_SECRET = re.compile(r"secret|password|token|(access|account)[.]?key", re.IGNORECASE)
# In the folder of a session: locked for as long as its process lives.
_HELD = "held"
_YOUNG_S = 60
_held: dict[Path, int] = {}


def session(
    app: str = "goqueue",
    *,
    master: str | None = None,
    home: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session that reads and writes topics; the one that runs already, if there is one.

    `master` defaults to what spark-submit set, else local[*]; sc://host:15002 is a server of Spark Connect. `home` is
    the folder for Spark's temporary files, swept of what dead processes left. `config` overrides.
    """
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        register(active)
        return active
    if (master or "").startswith(_CONNECT):
        return _connected(app, str(master), config or {})
    folder = _own_folder(Path(home or os.environ.get("GOQUEUE_SPARK_HOME") or tempfile.gettempdir()) / "goqueue-spark")
    java_home = find_java(folder)
    if java_home is not None:
        os.environ["JAVA_HOME"] = java_home
    sockets = _own_folder(Path(tempfile.gettempdir()) / "gq-spark")
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J, encoding="utf-8")
    chosen = master or os.environ.get("MASTER") or "local[*]"
    settings = {
        **SETTINGS,
        **_checkpoints(),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Xss8m -Dlog4j2.configurationFile={log4j} -Djava.io.tmpdir={folder}",
        **(config or {}),
    }
    if chosen.startswith("local"):
        settings = {
            "spark.local.dir": str(folder / "local"),
            # The path of a socket may have a hundred characters, and `home` may be long.
            "spark.python.unix.domain.socket.dir": str(sockets),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.python.daemon.module": "goqueue.pipeline.spark.daemon",
            **settings,
        }
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers run in the environment that has the packages, whichever python3 is first on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app).master(chosen)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _quiet_planners(folder) if chosen.startswith("local") else nullcontext():
        _start_jvm({"spark.app.name": app, "spark.master": chosen, **settings})
        spark = builder.getOrCreate()
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # They print the JVM's stack for every mistake in SQL, which is raised as well.
        PySparkLogger.getLogger(logger).disabled = True
    register(spark)
    return spark


def without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that a command line may show."""
    return {name: value for name, value in settings.items() if not _SECRET.search(name)}


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM with what it must know from its start; the session tells it the rest.

    PySpark writes all settings that it has by then into the command line, which everybody on this machine can read.
    """
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setAll(list(without_secrets(settings).items()))
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 - there is no other way


def is_connected(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect, which has neither a JVM nor a SparkContext in this process."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _connected(app: str, address: str, config: Mapping[str, str]) -> SparkSession:
    """A session at a server of Spark Connect. It has its own settings for all but SQL."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).remote(address)
    for name, value in {**SETTINGS, **_checkpoints(), **config}.items():
        if name.startswith("spark.sql.") and not name.startswith(_STATIC):
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def _checkpoints() -> dict[str, str]:
    """On a local disk this manager is faster than Spark's own choice; its package has another name since 4.1."""
    import pyspark

    package = "" if pyspark.__version__.startswith("4.0.") else "checkpointing."
    manager = f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"
    return {"spark.sql.streaming.checkpointFileManagerClass": manager}


def register(spark: SparkSession) -> None:
    """Make `format("goqueue")` known to a session that somebody else made."""
    from pyspark.errors import AnalysisException

    from goqueue.pipeline.data_source import GoQueueSource

    try:
        spark.dataSource.register(GoQueueSource)
    except AnalysisException as error:
        # PySpark 4.0 has found it by its name already, and does not let anybody say so again.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


@contextmanager
def _quiet_planners(folder: Path) -> Iterator[None]:
    """Have a session that starts meanwhile plan its queries by workers of our daemon, which is quiet.

    Spark starts the daemon of planners by the name of its own, whatever the settings say. Planners that had nothing
    to do for a minute are ended, and each of them would print a traceback. The planner of a stream is started without
    a daemon and must connect within ten seconds: see `planner.py`.
    """
    # Not above: it is a program as well, and this package is loaded before it.
    from goqueue.pipeline.spark.stand_in import write_stand_in

    python = os.environ["PYSPARK_PYTHON"]
    stand_in = write_stand_in(folder / "python", python)
    # Somebody who names a Python of their own, or whose temporary folder runs no programs, gets Spark's daemon.
    if python == sys.executable and os.access(stand_in, os.X_OK):
        os.environ["PYSPARK_PYTHON"] = str(stand_in)
    try:
        yield
    finally:
        os.environ["PYSPARK_PYTHON"] = python


def _own_folder(root: Path) -> Path:
    """A folder for this process; folders of processes that are gone are removed."""
    root.mkdir(parents=True, exist_ok=True)
    for other in root.iterdir():
        if other.name.isdigit() and other.name != str(os.getpid()) and _is_left(other):
            shutil.rmtree(other, ignore_errors=True)
    mine = root / str(os.getpid())
    mine.mkdir(exist_ok=True)
    if mine not in _held:
        _held[mine] = os.open(mine / _HELD, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(_held[mine], fcntl.LOCK_EX)
        atexit.register(_remove, mine, os.getpid())
    return mine


def _is_left(folder: Path) -> bool:
    """Whether nobody holds a folder any more. By a lock: numbers of processes differ from container to container."""
    try:
        held = os.open(folder / _HELD, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # Of an older version, or of a process that is just about to take its lock.
        return not is_alive(int(folder.name)) and time.time() - folder.stat().st_mtime > _YOUNG_S
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(held)
    return True


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)
