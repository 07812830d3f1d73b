"""Stores as Spark opens them: by Hadoop's file systems, which come with jars of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.errors import InvalidRequest
from goqueue.pipeline.paths import is_store, scheme_of, spark_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = {"s3a": "org.apache.hadoop:hadoop-aws", "abfs": "org.apache.hadoop:hadoop-azure"}


def refuse_closed(spark: SparkSession, place: str, field: str) -> None:
    """Raise if this Spark cannot open an address: before a query starts, and with the name of what is missing."""
    jvm = getattr(spark, "_jvm", None)
    if not is_store(place) or jvm is None:
        # Of a session of Spark Connect nothing is known here: its queries say it.
        return
    address = spark_address(place)
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        path = jvm.org.apache.hadoop.fs.Path(address)
        path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path)  # noqa: SLF001 - there is no other way
    except Py4JJavaError as error:
        scheme = str(scheme_of(address))
        package = _PACKAGES.get(scheme.removesuffix("s") if scheme == "abfss" else scheme)
        told = str(error.java_exception.getMessage()).splitlines()[0]
        raise InvalidRequest(
            f"{field}: Spark cannot open {address}: {told}",
            field=field,
            hint=f"its jars must be there, as by settings: {{spark.jars.packages: '{package}:VERSION'}}"
            if package
            else "the jars of this store must be there, by spark.jars in settings",
        ) from None
