"""What both ends of the gRPC API share: which method stands for which operation, and how values go into protos.

No I/O and no grpcio in here, and nothing that only one end needs. Begin reading with `table.py`.
"""
