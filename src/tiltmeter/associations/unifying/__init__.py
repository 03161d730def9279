"""Many phrases, few concepts."""

from tiltmeter.associations.unifying._unify import METHODS, THRESHOLD, sweep, unify

__all__ = ["METHODS", "THRESHOLD", "sweep", "unify"]
