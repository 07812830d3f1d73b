"""One file per family of routes, in rooms for queues and groups; each lists its routes at the bottom."""
