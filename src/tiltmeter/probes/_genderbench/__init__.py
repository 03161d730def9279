"""The 14 probes of GenderBench.

Every module of this package is one probe, and `wordings.yaml` has their prompt templates.
"""
