"""The JSON of the HTTP API: what requests and replies look like, one file for each subject.

Values only. Routes turn them into calls; nothing here calls a service.
Begin with `common.py`.
"""
