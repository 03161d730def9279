"""Method 2: associations. Which concepts a model attaches to which identities, discovered in free stories (BADF)."""

from tiltmeter.associations._suite import SETTINGS, Suite, suite

__all__ = ["SETTINGS", "Suite", "suite"]
