"""Plugins of other packages, and functions that users name."""
