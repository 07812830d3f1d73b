"""Topics, the replicas that this node has of their partitions, and the two paths of data.

What lives where: `replicas` holds open partitions and who may write to them, `arrivals` is the way in (a batch passes
an ordered list of steps and is written), `reading` is the way out. Features (queues, delay, transactions) and wire
formats do not belong here. Begin with `arrivals/publish.py` for the way in and `reading/fetch.py` for the way out.
"""
