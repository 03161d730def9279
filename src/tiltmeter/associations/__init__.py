"""Discovery of associations between concepts and identities in free stories (BADF)."""

from tiltmeter.associations.association_studies import SETTINGS, AssociationSuite, suite

__all__ = ["SETTINGS", "AssociationSuite", "suite"]
