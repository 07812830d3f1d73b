"""Bytes to records and back: frames, record batches, checksums, compression. Pure functions."""
