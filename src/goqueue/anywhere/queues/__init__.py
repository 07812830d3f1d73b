"""Queues that any node serves: receive and settle at the leaders, settings and assignments at the coordinators."""
