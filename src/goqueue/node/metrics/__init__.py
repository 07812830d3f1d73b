"""The metrics page: every series with its help, filled from the parts that count.

Nothing here counts; counters belong to the parts that do the work.
Begin with `broker_metrics.py`.
"""
