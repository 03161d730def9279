"""Benchmarks: how a model treats user-defined groups on a subject, calibrated against a baseline (SAGED)."""
