"""Jars that Spark does not have: its Kafka connector, Hadoop's way to S3, Delta and Iceberg; by Maven if it is here.

Not by `spark.jars.packages`: registries lag behind, and the connector of one version with the
small library beside it of another does where no version has both.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pyspark

_SPARK = "org.apache.spark"
# Each with the versions that do, the best first.
_KAFKA = (
    (_SPARK, "spark-sql-kafka-0-10_2.13", (pyspark.__version__, "4.2.0")),
    (_SPARK, "spark-token-provider-kafka-0-10_2.13", (pyspark.__version__, "4.2.0", "4.0.0")),
    ("org.apache.kafka", "kafka-clients", ("3.9.2", "3.9.1")),
    ("org.apache.commons", "commons-pool2", ("2.13.1", "2.12.0")),
)
# The bundle has 700 MB: it is fetched by the slow suite alone.
_S3A = (
    ("software.amazon.awssdk", "bundle", ("2.35.4", "2.29.52")),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", ("1.3.1", "1.2.1")),
)
# For PySpark 4.1.
_LAKES = (
    ("io.delta", "delta-spark_4.1_2.13", ("4.1.0",)),
    ("io.delta", "delta-storage", ("4.1.0",)),
    ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", ("1.11.0",)),
)
_SECONDS_MAX = 300


class JarsMissing(Exception):
    """The jars cannot be had here, and why."""


def connector_jars(folder: Path) -> list[Path]:
    """Spark's Kafka connector, fetched into `folder` unless it is there; JarsMissing with the reason."""
    return _jars(folder, _KAFKA)


def lake_jars(folder: Path) -> list[Path]:
    """What writes Delta and Iceberg tables in Spark 4.1 itself."""
    return _jars(folder, _LAKES)


def s3a_jars(folder: Path) -> list[Path]:
    """Hadoop's file system of S3, of the version of Hadoop that PySpark has."""
    jars = Path(pyspark.__file__).parent / "jars"
    hadoop = re.search(r"hadoop-client-api-([0-9.]+)\.jar", " ".join(one.name for one in jars.iterdir()))
    if hadoop is None:
        raise JarsMissing("PySpark has no Hadoop")
    return _jars(folder, (("org.apache.hadoop", "hadoop-aws", (hadoop[1],)), *_S3A))


def _jars(folder: Path, artifacts: tuple[tuple[str, str, tuple[str, ...]], ...]) -> list[Path]:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissing("jars cannot be had: there is no Maven here")
    folder.mkdir(parents=True, exist_ok=True)
    return [_jar(maven, folder, *artifact) for artifact in artifacts]


def _jar(maven: str, folder: Path, group: str, name: str, versions: tuple[str, ...]) -> Path:
    for version in versions:
        jar = folder / f"{name}-{version}.jar"
        if jar.exists() or _copied(maven, f"{group}:{name}:{version}", jar):
            return jar
    raise JarsMissing(f"jars cannot be had: Maven finds no {group}:{name} of {', '.join(versions)}")


def _copied(maven: str, artifact: str, jar: Path) -> bool:
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    command = [maven, "-q", "-B", goal, f"-Dartifact={artifact}", f"-DoutputDirectory={jar.parent}"]
    subprocess.run(command, capture_output=True, timeout=_SECONDS_MAX, check=False, cwd=jar.parent)
    return jar.exists()
