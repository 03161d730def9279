"""Plugins for Tiltmeter about work: two probes, a provider, a feature and a statistic."""
