"""Writes that any node takes: records, delayed and recurring messages, and what the broker itself appends elsewhere."""
