"""Decisions that somebody already made, compared between groups: selection rates and impact ratios."""
