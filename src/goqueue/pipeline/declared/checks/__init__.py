"""What is wrong with a pipeline beyond its form. Nothing here needs Spark, a broker or the files that it names."""
