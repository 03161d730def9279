"""Method 2: associations. Which concepts a model attaches to which identities, discovered in free stories (BADF)."""

from tiltmeter.associations.association_studies import SETTINGS, AssociationSuite, suite

__all__ = ["SETTINGS", "AssociationSuite", "suite"]
