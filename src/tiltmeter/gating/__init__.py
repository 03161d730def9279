"""The gate: does a run pass, and why not."""
