"""Who a client is, and what it may do.

`model` has the values that are stored; `store` keeps them in the metadata. `authentication` turns credentials into an
identity (`scram`, `sasl`, `tokens`, `certificates` for the mechanisms), `access` decides whether a principal may do
something. Nothing here knows a front-end or a service. Begin with `model`.
"""
