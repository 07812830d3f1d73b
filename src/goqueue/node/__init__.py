"""One running node: settings, files, clock, composition, life cycle."""
