"""Declared pipelines: a YAML file, or the same as Python values, checked, tested and run on Spark.

Begin with `load.py` (from a file to a checked `Pipeline`) and `main.py` (the loop of a run). `form/` is the vocabulary,
`checks/` what is wrong with a file, `frames/` makes Spark's frames of steps, `running/` queries, their state and
sinks, `testing/` the tests that a file carries, `pictures/` the drawing of one.
"""
