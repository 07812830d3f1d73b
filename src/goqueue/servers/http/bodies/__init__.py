"""Bodies of requests and answers: messages, schemas, times and durations as HTTP clients write and read them.

Pure conversions, and answers that are too large to be made at once. Routes are elsewhere. Begin with `message_json`.
"""
