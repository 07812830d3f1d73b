"""A simulated cluster: several nodes in one loop and one virtual time, with faults by one seed.

`loop` lets single nodes be frozen or end. `replica_node` is the storage and replication of a node, from the real parts;
`scripted_controller` decides who leads, by the rules of the design. `cluster` has the nodes and the faults, `workload`
the clients, and `checks` what must hold whatever happens. Begin with `cluster`.
"""
