"""Measurements of speed and memory, compared with peers in separate environments: `python -m perf`."""
