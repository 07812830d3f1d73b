"""Fetches of readers and of share consumers: their sessions, and the rows of their answers.

The handlers of the requests are in `handlers`. Begin with `fetch_sessions`, then `share_sessions`.
"""
