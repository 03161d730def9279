"""Probes as tasks of Inspect, and its logs as responses."""
