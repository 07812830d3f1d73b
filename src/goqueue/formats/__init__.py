"""Formats: JSON Schema, Avro and Protobuf. Schemas are parsed, compared and used to decode values here.

No network, no storage and no registry: a schema comes with the text of everything that it references (`source.Source`).
The libraries that do the work are an extra (`goqueue[schemas]`) and are imported on first use.
A schema may be written so that it takes hours to run. The broker therefore runs all of this in a process of its own
(`worker`), with limits on time and memory; clients, the command line and Spark run it in their own process.
Begin with `source.py`, then `jobs.py`.
"""
