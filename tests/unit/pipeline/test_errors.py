"""What Spark raises, told in one line."""

from __future__ import annotations

from goqueue.pipeline.errors import told_by_spark

OF_THE_JVM = """An error occurred while calling o73.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file /b.csv. SQLSTATE: KD
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:845)
\t... 1 more
Caused by: org.apache.spark.SparkIllegalArgumentException: CSV header does not conform to the schema.
 Header: town, id
 Schema: id, town
\tat org.apache.spark.sql.catalyst.csv.CSVHeaderChecker.checkHeaderColumnNames(CSVHeaderChecker.scala:96)
\t... 22 more
Caused by: java.lang.NumberFormatException: For input string: "x"
\t... 26 more
"""


def test_an_error_of_the_jvm_is_told_in_the_words_of_spark_and_not_of_py4j() -> None:
    assert told_by_spark(Exception(OF_THE_JVM)) == (
        "Encountered error while reading file /b.csv: CSV header does not conform to the schema. "
        "Header: town, id Schema: id, town"
    )


def test_an_error_of_ours_inside_the_jvm_goes_before_that() -> None:
    text = f"{OF_THE_JVM}Caused by: goqueue.errors.TopicNotFound: there is no topic 'a'\n"

    assert told_by_spark(Exception(text)) == "there is no topic 'a'"


def test_an_error_of_the_jvm_without_words_of_spark_stays_as_it_is() -> None:
    assert told_by_spark(Exception("An error occurred while calling o1.load.\n: java.lang.OutOfMemoryError\n")) == (
        "An error occurred while calling o1.load."
    )


def test_of_an_error_in_a_worker_the_last_line_is_told() -> None:
    text = (
        "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times: "
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "/lib/worker.py", line 1, in main\n    process()\nOSError: No space left on device\n'
        "\n\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1)\n\nDriver stacktrace:\n"
    )

    assert told_by_spark(Exception(text)) == "OSError: No space left on device"
