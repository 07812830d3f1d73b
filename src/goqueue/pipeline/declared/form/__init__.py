"""The vocabulary of a pipeline file: types, texts, JSON Schema. Spark is not needed. Begin with `spec.py`."""
