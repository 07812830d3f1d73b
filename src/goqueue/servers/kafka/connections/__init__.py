"""One Kafka connection: its bytes, its login, the order of its requests and the memory that they take.

What a request asks for is decided by handlers, which are elsewhere. Begin with `connection`.
"""
