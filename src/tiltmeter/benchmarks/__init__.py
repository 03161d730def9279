"""Method 3: benchmarks. How a model treats the groups I choose, on the subject I choose, against a baseline I call fair (SAGED)."""

from tiltmeter.benchmarks._suite import Suite, suite

__all__ = ["Suite", "suite"]
