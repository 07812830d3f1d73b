"""Backups of a broker: every log as it was at one instant, verified when made, when checked and when restored."""
