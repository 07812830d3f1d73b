"""Lake tables that Spark's executors write: Delta and Iceberg, each batch exactly once.

Executors write Parquet files and return their descriptions; the driver commits the list of files, together with the
number of the batch, and never holds rows. A batch that Spark runs again finds its number in the table and writes
nothing. `table.py` says what a table must be able to do; `append.py` and `merge.py` are what is done with one;
`delta.py` and `iceberg.py` are the two kinds. Streams, YAML and the broker do not belong here.
"""
