"""The gRPC API as Python code: messages and stubs, generated from `proto/goqueue/v1` by `make proto`.

Nothing else lives here, and nothing here is edited by hand; linters leave the generated modules out. The server, the
client and tests import it. Begin reading with `proto/goqueue/v1/common.proto`. Importing this package alone imports
neither grpcio nor protobuf: both come with the extra `goqueue[grpc]`.
"""
