from .inspecting import CHECKS, check_benchmark, describe_benchmark, sample_benchmark
from .reading import SagedTiers, load_json, read_benchmark, read_tiers

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
