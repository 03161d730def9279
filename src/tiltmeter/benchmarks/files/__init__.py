"""Benchmarks as files: read (Parquet, CSV, JSON, SAGED's own tiers), checked and sampled."""

from tiltmeter.benchmarks.files.inspecting import CHECKS, check_benchmark, describe_benchmark, sample_benchmark
from tiltmeter.benchmarks.files.reading import SagedTiers, load_json, read_benchmark, read_tiers

__all__ = [
    "CHECKS",
    "SagedTiers",
    "check_benchmark",
    "describe_benchmark",
    "load_json",
    "read_benchmark",
    "read_tiers",
    "sample_benchmark",
]
