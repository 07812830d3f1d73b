"""Topics, their settings and where their partitions live: durable, and changed only under guards.

Begin with `events` (the values and what may happen to them), `image` (what that adds up to) and `store`
(the port). `local` is the engine of a single node, a log; `shared/` that of several. `settings/`: what topics may set.
Nothing here opens a partition or knows a client.
"""
