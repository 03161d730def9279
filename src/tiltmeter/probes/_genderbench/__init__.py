"""The built-in probes: the 14 of GenderBench (`tiltmeter.probes.SUITE`), and others.

Every module of this package is one probe, and `wordings.yaml` has their prompt templates.
"""
