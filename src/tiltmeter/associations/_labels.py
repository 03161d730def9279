"""What associations are called, and the sentences that show them."""

from __future__ import annotations

from typing import Final

import polars as pl
from polars import DataFrame, col, lit, when

from tiltmeter.associations._expressions import spelling
from tiltmeter.associations._tables import OWNER
from tiltmeter.schema import beside

LITERAL: Final = 0.9
"""If a smaller share of the lists of a concept contain its label, the label says "and related"."""
AND_RELATED: Final = " and related"
"""The end of such a label."""
_CANDIDATES: Final = 10
"""Number of the most frequent phrases of a concept that may be its label."""
EXAMPLE_SENTENCES: Final = 3
"""Number of example sentences kept for an association."""
_PAIR: Final = ["concept", "identity"]


def labels_of(mentions: DataFrame, named: DataFrame) -> DataFrame:
    """Return `concept`, `identity` and `label`.

    The label is the most frequent phrase that at least LITERAL of the lists of the identity with the concept
    contain, also as a part of a longer phrase ("robe" in "robes"). If there is none, it is the phrase that
    most of these lists contain, and the label ends with "and related". Ties are resolved in favour of the
    phrase that names the concept, then alphabetically.

    Parameters
    ----------
    mentions
        MENTIONS with `concept` and `identity`.
    named
        CONCEPTS of the study. A concept whose name is none of its phrases was named by the user: its name is
        the label.
    """
    phrases = mentions.select(*OWNER, *_PAIR, "phrase").with_columns(form=spelling(col.phrase))
    lists = phrases.group_by(*_PAIR).agg(lists=pl.struct(OWNER).n_unique())
    forms = phrases.group_by(*_PAIR, "form").agg(
        label=col.phrase.mode().sort().first(), uses=pl.struct(OWNER).n_unique()
    )
    most_used_first = forms.sort("uses", "label", descending=[True, False])
    candidates = most_used_first.group_by(_PAIR, maintain_order=True).head(_CANDIDATES)
    contained = phrases.join(candidates.rename({"form": "candidate"}), on=_PAIR)
    contained = contained.filter(col.form.str.contains(col.candidate, literal=True))
    labels = contained.group_by(*_PAIR, "label", "uses").agg(literal=pl.struct(OWNER).n_unique())
    labels = beside(labels, lists, *_PAIR)
    is_literal = col.literal >= LITERAL * col.lists
    names_concept = col.label == col.concept
    share = when(is_literal).then(col.lists).otherwise("literal")
    descending = [True, True, True, False]
    best = labels.sort(share, "uses", names_concept, "label", descending=descending)
    best = best.unique(_PAIR, keep="first")
    end = when(is_literal).then(lit("")).otherwise(lit(AND_RELATED))
    is_phrase = col.concept.is_in(named["phrase"].implode())
    label = when(is_phrase).then(pl.concat_str("label", end)).otherwise("concept")
    return best.select(*_PAIR, label=label)


def labelled(rows: DataFrame, labels: DataFrame) -> DataFrame:
    """Add the `label` of each concept for its identity to rows with `concept` and `identity`.

    The default is the concept itself.
    """
    return beside(rows, labels, *_PAIR).with_columns(label=pl.coalesce("label", "concept"))


def with_examples(associations: DataFrame, mentions: DataFrame) -> DataFrame:
    """Add the first sentences that contain the concept as `examples` to rows that are `reported`."""
    keys = [*_PAIR, "context"]
    reported = associations.filter("reported").select(keys)
    in_context = mentions.drop_nulls("sentence").select(*keys, "sentence")
    in_all_contexts = in_context.drop("context")
    sentences = (
        pl.concat([in_context.drop_nulls("context"), in_all_contexts], how="diagonal")
        .join(reported, on=keys, how="semi", nulls_equal=True, maintain_order="left")
        .unique(maintain_order=True)
    )
    examples = sentences.group_by(keys, maintain_order=True).agg(
        examples=col.sentence.head(EXAMPLE_SENTENCES)
    )
    return beside(associations, examples, *keys)
