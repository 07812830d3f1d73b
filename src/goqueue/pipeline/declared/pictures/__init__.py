"""A pipeline as a drawing."""
