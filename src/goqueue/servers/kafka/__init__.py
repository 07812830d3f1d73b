"""The Kafka protocol: one handler file per API, between bytes and the services.

`server` accepts connections, `connections` reads their requests, `dispatch` finds the handler that `registry` lists.
`reading` and `administration` hold what several handlers share. Begin with `api`, then any file of `handlers`.
"""
