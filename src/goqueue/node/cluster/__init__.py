"""What a node of a cluster does with its machine: its etcd, its supervisor, the files that say which cluster it is in.

`supervisor` runs the broker and its etcd as children. `etcd` connects to the metadata store. `belonging` keeps data
directories and clusters apart. Decisions are elsewhere, in `goqueue.cluster`.
"""
