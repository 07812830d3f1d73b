"""The network between nodes over TCP, plain or with TLS.

Begin with `network`. `door` accepts connections and bounds those that have not authenticated yet, `messages` cuts the
stream into messages, `handshake` is the mutual proof of the cluster's secret, and `certificates` says for which nodes
a certificate speaks. What nodes say to each other afterwards lives in `cluster.replication` and `cluster.calls`.
"""
