"""A broker for tests: a manual clock, a disk that fails on demand, a seeded simulation."""
