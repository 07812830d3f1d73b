"""The tests that a pipeline file carries: given rows in, expected rows out. Begin with `cases.py`."""
