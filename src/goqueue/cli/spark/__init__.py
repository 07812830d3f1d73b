"""Commands that run on Spark: pipelines and bulk jobs. Spark is imported only when one of them is called.

Begin with `pipeline` and `jobs`.
"""
