"""The gRPC front-end: the services of `proto/goqueue/v1`, over the same services as the other front-ends.

Here live the listener, the translation between protos and the broker's own values, and the streams with their
back-pressure. Decisions about messages do not live here: plain methods call the operations that HTTP calls too
(`goqueue.rpc.table` says which), streams and the hot methods call the services. grpcio and protobuf are imported
only when a gRPC listener is configured. Begin reading with `server.py`, then `plain.py`, then `work.py` for a stream.
"""
