"""The runtime of everything that keeps state in an internal topic."""
