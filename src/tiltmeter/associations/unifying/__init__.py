"""Many phrases, few concepts."""

from tiltmeter.associations.unifying._spelling import normal_form
from tiltmeter.associations.unifying._unify import METHODS, THRESHOLD, sweep, unify

__all__ = ["METHODS", "THRESHOLD", "normal_form", "sweep", "unify"]
