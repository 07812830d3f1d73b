"""Looking at and changing what a broker holds: topics, groups, policies, dead letters, delays, schedules.

Messages are produced and consumed elsewhere. `replies` has what calls return, `requests` what they take.
"""
