"""Transactions: records of many partitions, and offsets of groups, that count together or not at all."""
