"""A queue as a source: `.option("mode", "queue")` takes messages with leases, and acknowledges them with the batch.

The planner takes messages over HTTP; their places and receipts are the offset of a micro-batch, so a batch that runs
again reads the same messages. Executors read the records themselves, by the Kafka port. Begin with `stream_reader.py`.
"""
