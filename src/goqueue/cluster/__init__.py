"""The cluster: how several nodes are one broker.

`network` is the port through which nodes talk, `tcp/` the real one. `replication/` copies logs from leaders to
followers, `replicated_writer` says when a write is safe on the replicas, `isr` changes who counts as in sync.
Sessions, the controller and placement decide who leads. Front-ends are not here: they ask the services.
"""
