"""Members of groups: a consumer of a stream, its membership, its heartbeats and its positions.

Settling single messages belongs to `queues`, which uses the membership from here. Begin with `consumer`.
"""
