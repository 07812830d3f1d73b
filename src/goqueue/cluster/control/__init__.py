"""Who leads what: the controller, and where new partitions are placed.

`elections` decides one partition, `plan` the whole cluster from one image; both are pure. `controller` is the node
that carries the plan out, under a lease. `placement` puts new partitions on nodes, `replicas` adds and removes copies.
Begin with `elections`.
"""
