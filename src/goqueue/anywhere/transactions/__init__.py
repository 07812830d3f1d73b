"""Transactions whose coordinator or partitions are on other nodes."""
