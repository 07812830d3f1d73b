"""The Spark source: options, planning, and the readers of batches, streams and files.

From options to tasks to chunks of batches. How bytes become columns is in `pipeline/decoding`.
Nothing here imports the broker.
Begin with `options.py`, `plan.py`, `stream_reader.py`.
"""
