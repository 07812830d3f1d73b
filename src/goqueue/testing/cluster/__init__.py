"""A simulated cluster: several nodes in one loop and one virtual time, with faults by one seed.

`loop` lets single nodes be frozen or end. `replica_node` is the storage and replication of a node, from the real parts;
`scripted_controller` decides who leads, by the design's rules. `cluster` is the nodes and what can be done to them;
`fault_injector` does it by the weights of a profile (`fault_profiles`), at times at the worst moment (`moments`).
`workload` has the clients, and `checks` what must hold whatever happens. Begin with `cluster`.
"""
