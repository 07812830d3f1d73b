"""Validation: records are checked against the schemas that their topic allows, whatever the way they came.

Which schema a record names is looked at here; whether its value fits is asked of the schema worker.
Begin with `rules.py`, then `checker.py` and `step.py`.
"""
