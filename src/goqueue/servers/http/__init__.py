"""The HTTP API: operations as JSON routes, and queues over one WebSocket.

`app` lists the routes, `route` and `adapter` turn a request into the call of an operation, `routes` and `types` hold
one file per subject. `admission` is what a request passes before, `bodies` what it reads and writes. Begin with `app`.
"""
