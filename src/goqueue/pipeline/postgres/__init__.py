"""PostgreSQL tables as sinks: executors COPY rows into a staging table, the driver merges them in one transaction.

That transaction also writes the batch's number, so a batch that Spark runs again finds it and writes nothing. Begin
with `writer.py`; `statements.py` is the SQL, as text and without a connection. Streams and YAML do not belong here.
"""
