"""Benchmarks as files: read (Parquet, CSV, JSON, SAGED's own tiers), written whole or not at all, checked and sampled."""

from tiltmeter.benchmarks.files._check import CHECKS, check_benchmark
from tiltmeter.benchmarks.files._describe import describe_benchmark
from tiltmeter.benchmarks.files._read import read_benchmark
from tiltmeter.benchmarks.files._saged import Tiers, read_tiers
from tiltmeter.benchmarks.files._sample import sample_benchmark
from tiltmeter.benchmarks.files._write import write_benchmark, writing

__all__ = [
    "CHECKS",
    "Tiers",
    "check_benchmark",
    "describe_benchmark",
    "read_benchmark",
    "read_tiers",
    "sample_benchmark",
    "write_benchmark",
    "writing",
]
