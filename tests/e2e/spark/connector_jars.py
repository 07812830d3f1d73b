"""The jars of Spark's own Kafka connector, by Maven where it is installed.

Not by `spark.jars.packages`: registries lag behind, and the connector of one version with the
small library beside it of another does where no version has both.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyspark

_SPARK = "org.apache.spark"
# Each with the versions that do, the best first.
_ARTIFACTS = (
    (_SPARK, "spark-sql-kafka-0-10_2.13", (pyspark.__version__, "4.2.0")),
    (_SPARK, "spark-token-provider-kafka-0-10_2.13", (pyspark.__version__, "4.2.0", "4.0.0")),
    ("org.apache.kafka", "kafka-clients", ("3.9.2", "3.9.1")),
    ("org.apache.commons", "commons-pool2", ("2.13.1", "2.12.0")),
)
_SECONDS_MAX = 120


class JarsMissing(Exception):
    """The connector cannot be had here, and why."""


def connector_jars(folder: Path) -> list[Path]:
    """The jars, fetched into `folder` unless they are there; JarsMissing with the reason."""
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissing("Spark's Kafka connector cannot be had: there is no Maven here")
    folder.mkdir(parents=True, exist_ok=True)
    return [_jar(maven, folder, *artifact) for artifact in _ARTIFACTS]


def _jar(maven: str, folder: Path, group: str, name: str, versions: tuple[str, ...]) -> Path:
    for version in versions:
        jar = folder / f"{name}-{version}.jar"
        if jar.exists() or _copied(maven, f"{group}:{name}:{version}", jar):
            return jar
    raise JarsMissing(f"Spark's Kafka connector cannot be had: Maven finds no {group}:{name} of {', '.join(versions)}")


def _copied(maven: str, artifact: str, jar: Path) -> bool:
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    command = [maven, "-q", "-B", goal, f"-Dartifact={artifact}", f"-DoutputDirectory={jar.parent}"]
    subprocess.run(command, capture_output=True, timeout=_SECONDS_MAX, check=False, cwd=jar.parent)
    return jar.exists()
