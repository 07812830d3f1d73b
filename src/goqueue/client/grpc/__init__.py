"""The client's gRPC transport: the same calls as over HTTP, as methods of the gRPC API.

Parts of the client name an operation and give its fields; the transport finds the method that stands for it
(`goqueue.rpc.table`), puts the fields into its request, and hands the answer back as over HTTP. So everything above the
transport is the same code, with the same retries and errors. grpcio is imported when a client connects to `grpc://`.
Begin reading with `transport.py`.
"""
