"""The two paths: publish and read. Nothing else."""
