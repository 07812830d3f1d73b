"""One file per family of routes; each lists its routes at the bottom."""
