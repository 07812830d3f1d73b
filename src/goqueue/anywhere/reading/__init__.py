"""Reads that any node answers: facts, records and stories, asked of the leaders of their partitions."""
