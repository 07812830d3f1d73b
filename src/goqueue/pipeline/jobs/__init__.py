"""Bulk jobs: work around a broker that is too heavy for one process, as Spark jobs with a report of what was done."""
