"""Measurements of speed and memory, beside peers in environments of their own: `python -m perf`."""
