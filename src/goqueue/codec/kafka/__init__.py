"""Kafka's messages: shapes, and what turns them into bytes and back. Servers and clients share it."""
