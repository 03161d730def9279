"""Plugins for Tiltmeter about work: a probe, a provider, a feature and a statistic."""
