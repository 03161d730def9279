"""Studies of truth: whether claims about whole populations of studies hold.

They take minutes, so they are not tests. `python -m perf.studies` carries them out and records the outcome,
the date and a fingerprint of the code that they examine in `perf/studies/recorded.yaml`. `make lint` and the
table of `.ci/run` name the studies whose code has changed since then. A small case of each study is a test of
`make verify`.
"""
