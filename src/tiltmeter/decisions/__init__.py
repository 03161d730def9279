"""Decisions that were already made, compared between groups: selection rates and impact ratios."""
