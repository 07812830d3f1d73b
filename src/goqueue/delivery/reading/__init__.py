"""Reading for queues: the records behind offsets, opened, or as batches that hold little else.

Only what is decided is read: below the last stable offset, without aborted records.
Nothing here changes a queue.
Begin with `opened_batches.py`.
"""
