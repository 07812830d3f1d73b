"""What an operator does to a cluster besides running it: check it before its start, replace a machine, recover etcd.

The commands are in `cli/cluster`. `checking` and `probing` belong together, `replacing` and `settings_file` do, and
`recovering` stands alone. Nothing here runs in a broker.
"""
