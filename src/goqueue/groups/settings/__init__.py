"""What was set for groups: read and changed in the metadata. What a group is, its coordinator knows.

Begin with `requests`. `stored_settings` is the metadata, `own_settings` the rules of single settings, and
`former_settings` takes over what an earlier version left in the coordinator's log.
"""
