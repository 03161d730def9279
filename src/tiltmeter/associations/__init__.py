"""Discovery of associations between concepts and identities in free stories (BADF)."""
