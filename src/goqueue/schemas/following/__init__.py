"""The registry on nodes that do not coordinate it: a copy of its tables, which follows the coordinator.

`changes` is the coordinator's half, `mirror` the other nodes'. How one asks the other is `goqueue.anywhere`'s business.
"""
