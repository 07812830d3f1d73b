"""What the features' hooks tell the tracer, put into its words. Only the node knows both.

`hooks` are those of the paths in and out and of the logs, `queues` those of delivery and dead letters, `delays`
those of delayed messages. `exporters` makes what the settings name. Nothing here waits or raises.
"""
