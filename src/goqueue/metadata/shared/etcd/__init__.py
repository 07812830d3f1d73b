"""The shared store on etcd: its gRPC API, of which a broker uses a few calls.

`messages` has the shapes, `connection` the channels and what an error means, `etcd_kv` the `Kv` port, and `servers`
what is asked of the servers themselves: version, size, alarms, members. grpcio is imported only by a node of a cluster.
"""
