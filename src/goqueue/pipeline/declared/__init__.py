"""Declared pipelines: a file says what flows where; this package checks it, draws it, tests it and runs it."""
