"""Diagnosing a benchmark: summary statistics for each group, disparity over the groups, and what it can be put down to."""

from tiltmeter.benchmarks.diagnosis._calibration import calibrate, decompose
from tiltmeter.benchmarks.diagnosis._diagnose import DEFAULT_STATISTICS, DEFINITIONS, Diagnosis, diagnose
from tiltmeter.benchmarks.diagnosis._overall import overall_means
from tiltmeter.benchmarks.diagnosis._statistics import find_statistics
from tiltmeter.stats.summary import Options

__all__ = [
    "DEFAULT_STATISTICS",
    "DEFINITIONS",
    "Diagnosis",
    "Options",
    "calibrate",
    "decompose",
    "diagnose",
    "find_statistics",
    "overall_means",
]
