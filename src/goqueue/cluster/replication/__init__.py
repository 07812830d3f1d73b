"""Replication: how followers get what leaders write, and how leaders learn how far they got.

A follower connects to each node that leads one of its partitions: one stream per ordered pair of nodes. Begin with
`messages` (what is said on a stream), then `leader_stream` and `follower_stream` (the two ends). `term` is what a
leader knows of its followers in one term; `terms` has the terms of all partitions that this node leads. Who is in sync
is changed in `goqueue.cluster.isr`, and writes wait for replicas in `goqueue.cluster.replicated_writer`.
"""
