"""Topics, their settings and where their partitions live."""
