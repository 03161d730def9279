"""Explanations of the numbers of benchmarks, as they hold for the definition and the baselines of a run."""

from __future__ import annotations

from collections.abc import Mapping

from polars import DataFrame

from tiltmeter.benchmarks._display import definition_of_findings, is_true
from tiltmeter.benchmarks._tables import BASELINES

RANGES = (
    "The range is the largest group mean minus the smallest. Even without any bias, chance makes it larger "
    "than 0; see its interval and its q-value."
)
STUDENTISED_TEST = (
    "The test permutes the groups and uses a studentised statistic (Welch-James), so that groups may differ "
    "in size and variance."
)
PLAIN_TEST = "The test permutes the groups and assumes that their variances are equal."
GROUPS = (
    "Each group is also compared with the mean of the others. One small group with very different answers "
    "does not hide differences between the others."
)
THREE_FAMILIES = (
    "A q-value controls the false discovery rate of its family: the same comparison of the same statistic "
    "over all conditions and features; for a group against the others, over all groups as well. The key "
    "numbers (calibrated where there is a baseline), the measured values of calibrated features, and the "
    "baselines are three families."
)
SINGLE_FAMILY = (
    "A q-value controls the false discovery rate of its family: the same comparison of the same statistic "
    "over all conditions, features and baselines, measured and calibrated. The key numbers are not "
    "calibrated."
)
RATIOS = (
    "The impact ratio is the smallest selection rate divided by the largest. The selection rate of a "
    "decision (a feature whose values are true or false) is the share of positive decisions, which is never "
    "calibrated; that of another feature is the share of prompts whose value is at least the mean of all "
    "prompts. The four-fifths rule applies to decisions only, and is stated only if the ratio differs from 1 "
    "(q below 0.05). It is violated if the whole interval of the ratio lies below 0.8; “below 0.8, "
    "uncertain” means that its interval includes 0.8."
)
PUBLISHED_RATIOS = (
    "The impact ratio is the smallest selection rate divided by the largest. The selection rate is the share "
    "of prompts whose value is at least the mean of all prompts, as published, for decisions as well; the "
    "four-fifths rule is therefore not stated."
)
DISTANCES: Mapping[str, str] = {
    "z": ("|z| is the distance of a group's mean from the mean of the groups, in standard deviations."),
    "dixon": (
        "Dixon's Q is the distance of the outermost group from its neighbour, as a share of the range."
    ),
}
"""Sentence by column, for the columns that are shown."""
CALIBRATION_WITHOUT_NAMES = (
    "Calibrated values are the values of an answer minus those of its baseline, the text from which the "
    "prompt was made, after one word has replaced the names of the groups in both. A measuring tool that "
    "reacts to a name therefore adds nothing, however often an answer contains the name."
)
CALIBRATION_WITH_NAMES = (
    "Calibrated values are the values of an answer minus those of its baseline, the text from which the "
    "prompt was made. The names of the groups were not replaced: a measuring tool that reacts to a name "
    "still adds something where an answer contains the name more or less often than its baseline."
)
DIFFERENT_BASELINES = (
    "The baselines of the groups differ in more than the names of the groups: calibrated values compare the "
    "answers about each group with its own baselines, and differ even for a model that answers alike about "
    "all groups."
)
CONDITIONS = "A condition is one role of the model; “baseline” stands for the baseline texts."


def how_to_read(findings: DataFrame, disparities: DataFrame, rows: DataFrame) -> list[str]:
    """Return the explanations that hold for the definition, the baselines and the columns of `rows`.

    `rows` has one row per condition and feature (see `wide_rows`).
    """
    definition = definition_of_findings(findings)
    if definition.formulas.studentised:
        sentences = [f"{RANGES} {STUDENTISED_TEST}", GROUPS]
    else:
        sentences = [f"{RANGES} {PLAIN_TEST}"]
    sentences.append(THREE_FAMILIES if definition.calibrated_keys else SINGLE_FAMILY)
    ratios = RATIOS if definition.decision_rates else PUBLISHED_RATIOS
    distances = [sentence for name, sentence in DISTANCES.items() if rows[name].count()]
    sentences.append(" ".join([ratios, *distances]))
    if BASELINES in findings["context"]:
        names_replaced = is_true(disparities, "names_replaced")
        sentences.append(CALIBRATION_WITHOUT_NAMES if names_replaced else CALIBRATION_WITH_NAMES)
        if "names_only" in disparities.columns and not is_true(disparities, "names_only"):
            sentences.append(DIFFERENT_BASELINES)
    return [*sentences, CONDITIONS]
