"""Report blocks for associations: counts by group and location, the strongest, and overlap between models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import polars as pl
from polars import DataFrame, Expr, String, col, lit, when

from tiltmeter._quantities import confidence, interval, interval_name, quantity
from tiltmeter.associations._presentation_overlap import present_overlap
from tiltmeter.associations._presentation_rows import (
    LEAST_SHOWN,
    NAME_COLUMNS,
    OWNER_COLUMNS,
    TOP,
    TOP_OF_GROUP,
    TOP_OF_MODEL,
    TOP_OF_PLACE,
    described,
    facing,
    is_general,
    is_shown_first,
    names_of,
    numbers_of,
    percent,
    table_of,
)
from tiltmeter.associations._tables import (
    ASSOCIATIONS,
    DEFINITIONAL,
    NAMES_LIKE_THESE,
    NET_TONE,
    OWN_TEXTS,
    TEXTS_LIKE_THESE,
    THESE_NAMES,
    TONES,
)
from tiltmeter.associations.paper_tables import SHARE_OF_OTHERS
from tiltmeter.blocks import (
    Block,
    Callout,
    Column,
    Details,
    Heading,
    Headline,
    Heatmap,
    Kind,
    PairRow,
    Pairs,
    Response,
    Responses,
    Table,
    Text,
    columns_of,
    named_model,
)
from tiltmeter.comparisons import is_about_missing
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.schema import beside
from tiltmeter.study import ReportView

DESCRIPTORS_NAMED: Final = 3
"""Number of descriptors named for an association."""
MOST_EXCLUDED: Final = 10
"""Number of excluded concepts up to which their table is not folded."""
_NAME: Final = ["model", *NAME_COLUMNS]
"""Columns that name an association of a part."""
_STEM: Final = 5
"""Number of first letters by which words of the judge and of the text are taken for the same."""
MAY_LEAD: Final = " (may be first)"
"""Mark of a next group whose share may be higher than that of the first."""
_MEANING: Final = (
    "An association is a concept that the texts mention more often for one group than for others. It"
    " describes the texts, not people. A difference is a difference of two shares of character descriptions."
    " Means are descriptive only. Descriptions that could not be extracted are excluded: they count neither"
    " as containing a concept nor as lacking it."
)
_SELECTED: Final = (
    "Adjustment for selection: an association is listed if q < 0.05 and its interval excludes 0. q is the"
    " smallest false discovery rate at which it would be selected, first the concept and then the group and"
    " location. Intervals are widened for the number of associations listed: at least {level} of them are"
    " expected to contain their true values. The differences themselves are not adjusted. Because only the"
    " strongest are listed, they are too large on average, the more so the fewer texts there are: in"
    " simulated studies of gender by 6 to 11% with 8,700 texts, and by 35 to 40% at single locations with 400"
    " texts. The intervals allow for this; the lower end is the safest number to quote."
)
_PUBLISHED: Final = (
    "An association is listed if its score, the published distinctiveness, is above 0 and p < 0.05, not"
    " adjusted for the number of tests. q is p adjusted for all tests (Benjamini-Hochberg); the published"
    " rule does not use it."
)
_POPULATIONS: Final = {
    NAMES_LIKE_THESE: "These results are about texts like these with first names like these, not only about"
    " the names of this study.",
    THESE_NAMES: "These results are about the names of this study: with fewer than 20 first names of a group,"
    " an association may belong to a name rather than to the group.",
    TEXTS_LIKE_THESE: "These results are about texts like these.",
}
"""Sentences about the population of the associations, by their `estimand`."""
_ATTRIBUTED: Final = (
    "Words not attributed: share of the words of these texts that are about none of the characters; they"
    " count for no group."
)
_HOW: Final = (
    "To list all associations: tiltmeter show RUN --all. To read the stories of one: tiltmeter show RUN"
    " --metric association --part PART --model MODEL --group GROUP --concept CONCEPT. Add --context LOCATION"
    " for an association at one location."
)


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of a run, or of one part of it, from which the blocks are made."""

    findings: DataFrame
    associations: DataFrame
    """Findings of single associations with display columns, see `described`."""
    excluded: DataFrame
    """The same for associations that are excluded, such as definitional ones."""
    lists: DataFrame
    themes: DataFrame
    by_words: DataFrame

    @classmethod
    def of(cls, view: ReportView) -> _Tables:
        """Return the tables of a run."""
        of_lists = {**OWNER_COLUMNS, "status": String, "problem": String}
        of_associations = {**OWNER_COLUMNS, **ASSOCIATIONS}
        excluded = table_of(view, "definitional", DEFINITIONAL)
        return cls(
            findings=view.findings.filter(~is_about_missing()),
            associations=described(view.findings.filter(metric="association"), view),
            excluded=described(excluded, view),
            lists=table_of(view, "lists", of_lists),
            themes=table_of(view, "themes", of_associations),
            by_words=table_of(view, "by_words", of_associations),
        )

    def of_part(self, part: str) -> _Tables:
        """Return the rows of one part."""
        return self._map(lambda table: table.filter(part=part))

    def worst_first(self) -> _Tables:
        """Return the rows by model: most associated concepts first, then the largest difference."""
        listed = self.findings.select(col.model.unique(maintain_order=True))
        counted = self.associations.group_by("model").agg(col.concept.n_unique(), col.low.max())
        models = listed.join(counted, on="model", how="left", maintain_order="left").sort(
            "concept", "low", descending=True, nulls_last=True, maintain_order=True
        )
        order = pl.Enum(models["model"])
        return self._map(lambda table: table.sort(col.model.cast(order), maintain_order=True))

    def _map(self, change: Callable[[DataFrame], DataFrame]) -> _Tables:
        """Return the tables after a change of each."""
        tables = {field.name: change(getattr(self, field.name)) for field in fields(self)}
        return _Tables(**tables)


def present(view: ReportView) -> list[Block]:
    """Return the blocks of all parts and models.

    The associations that models and settings share follow.
    """
    if view.findings.is_empty():
        return []
    tables = _Tables.of(view)
    blocks: list[Block] = []
    for part in view.findings["part"].unique(maintain_order=True):
        blocks.append(Heading(view.titles.get(part, part)))
        blocks += _part(tables.of_part(part).worst_first())
    blocks += present_overlap(view.findings, tables.associations)
    explanations = (_MEANING, _selection(view.findings), _HOW)
    blocks += [Text(text, small=True) for text in explanations]
    return blocks


def _selection(findings: DataFrame) -> str:
    """Return the sentences about the selection of the listed associations."""
    if "score" in findings["unit"]:
        return _PUBLISHED
    # The level of the study; levels of intervals after selection are higher.
    level: float = findings.select(col.level.min()).item()
    return _SELECTED.format(level=confidence(level)) + _size_of(findings)


def _size_of(findings: DataFrame) -> str:
    """Return a sentence with the number of texts of each model and part; empty if it is unknown."""
    totals = findings.filter(col.group.is_null(), col.context.is_null(), metric="associations")
    sizes = totals["attempts"].drop_nulls().unique().sort()
    if sizes.is_empty():
        return ""
    smallest, largest = f"{sizes[0]:,}", f"{sizes[-1]:,}"
    span = smallest if smallest == largest else f"{smallest} to {largest}"
    return f" This run has {span} texts of each model."


# -- one part of a study, all models together ------------------------------------------------------


def _part(tables: _Tables) -> list[Block]:
    """Return the blocks of one part."""
    findings, associations = tables.findings, tables.associations
    totals = findings.filter(col.group.is_null(), metric="associations")
    is_over_all = col.context.is_null()
    # Without tests over all locations, show those of each location.
    is_first = is_over_all | ~is_over_all.any().over("model")
    first = associations.filter(is_first).filter(is_shown_first())
    missing = findings.filter(metric="missing")
    blocks: list[Block] = [
        _headline(total, first, associations, missing) for total in totals.iter_rows(named=True)
    ]
    if set(findings["part"]) == {OWN_TEXTS} and tables.themes.height:
        blocks += _theme_headlines(tables.themes)
    populations = set(findings["estimand"])
    blocks += [Text(sentence) for population, sentence in _POPULATIONS.items() if population in populations]
    for model, note in totals.filter(col.estimate.is_null())["model", "note"].iter_rows():
        blocks.append(Callout(f"{model}: {note}."))
    if associations.height:
        of_groups = first.group_by("model", "group", maintain_order=True).head(TOP_OF_GROUP)
        strongest = (
            first.join(of_groups.select(_NAME), on=_NAME, how="semi", nulls_equal=True, maintain_order="left")
            .group_by("model", maintain_order=True)
            .head(TOP_OF_MODEL)
        )
        scope = (
            ", all locations together"
            if associations["context"].count() and not first["context"].count()
            else ""
        )
        title = f"Strongest associations{scope} ({strongest.height:,} of {first.height:,})"
        if first.height:
            blocks.append(_strongest(title, strongest))
        for (model,), rows in first.group_by("model", maintain_order=True):
            blocks.append(_evidence(str(model), rows))
    blocks += _themes(tables.themes)
    counts = findings.filter(col.group.is_not_null() & col.concept.is_null() & col.feature.is_null())
    if totals["estimate"].count():
        blocks.append(_of_groups(counts.filter(is_over_all), associations))
    if associations.height:
        blocks += _by_location(counts.drop_nulls("context"), associations)
    for (metric,), rows in tables.excluded.group_by("metric", maintain_order=True):
        blocks.append(_excluded(rows, str(metric)))
    blocks += _missing(missing, tables.lists)
    blocks += _by_judge_and_words(associations, tables.by_words)
    return blocks


def _strongest(title: str, rows: DataFrame) -> Pairs | Table:
    """Return associations.

    Their shares are a figure with a table; if they are unknown, there is only a table.
    """
    names = names_of(rows)
    numbers = numbers_of(rows)
    rows = rows.with_columns(
        next=pl.format("{}{}", "next", when("may_lead").then(lit(MAY_LEAD)).otherwise(lit("")))
    )
    if rows["next"].count():
        numbers.append(Column.of(rows, "next", "next group", "name", rank=2))
    if rows["also"].count():
        numbers.append(Column.of(rows, "also", "also for", "name", rank=2))
    if "variants" in rows.columns and rows["variants"].count():
        numbers.append(Column.of(rows, "variants", rank=3))
    if not rows["others_rate"].count():
        return Table(title, [*names, *numbers], lead=len(names))
    has_opposite = bool(rows["against"].count())
    shares = [Column.of(rows, "rate", "share", "percent")]
    if has_opposite:
        shares.append(Column.of(rows, "facing", "compared with", "name"))
    shares.append(Column.of(rows, "others_rate", "others", "percent"))
    others = SHARE_OF_OTHERS[has_opposite]
    note = f"Share: of the group's descriptions, those that contain the concept; others: {others}."
    if rows["next"].count():
        note += f" Next group: the other group with the highest share;{MAY_LEAD}: it is open which is higher."
    if rows["low"].count() and rows["model"].n_unique() == 1:
        note += " Sorted by the lower end of the interval."
    table = Table(title, [*names, *shares, *numbers], lead=len(names), note=note)

    model = pl.format(", {}", "model") if rows["model"].n_unique() > 1 else lit("")
    label = pl.concat_str("said", pl.format(" ({})", "context").fill_null(""), model)
    pairs = rows.drop_nulls("others_rate").select(label, "group", "rate", "others_rate", "facing")
    return Pairs(
        title=title,
        rows=[PairRow(*row) for row in pairs.iter_rows()],
        table=table,
        finding=_largest(rows),
        about=f"Descriptions with the concept, by group.{_size_of_pairs(rows)}",
    )


def _largest(rows: DataFrame) -> str:
    """Return the association with the largest lower end of its difference in words."""
    row = rows.drop_nulls("others_rate").sort("low", descending=True, nulls_last=True).row(0, named=True)
    arrow = f"{row['group']} → {row['said']}"
    shares = f"in {row['rate']:.1%} of descriptions by {row['model']}, {row['facing']} "
    return f"{arrow}: {shares}{row['others_rate']:.1%}"


def _size_of_pairs(rows: DataFrame) -> str:
    """Return the smallest number of descriptions of a group as a sentence; empty if it is unknown."""
    smallest = min(rows["lists"].drop_nulls(), default=None)
    return "" if smallest is None else f" At least {smallest:,} descriptions of each group."


def _themes(themes: DataFrame) -> list[Block]:
    """Return the themes in which a group differs, and the share of the words of each theme by group."""
    themes = themes.with_columns(
        group="identity",
        said=when(col.concept == NET_TONE).then(lit("tone: positive minus negative")).otherwise("concept"),
        where=lit("all"),
        facing=facing(),
        estimate="effect",
        unit=lit("difference"),
    )
    blocks: list[Block] = []
    order = pl.Enum(themes["model"].unique(maintain_order=True))
    differing = (
        themes.filter("reported", ~col.concept.is_in(TONES))
        .sort("low", descending=True)
        .group_by("model", maintain_order=True)
        .head(TOP)
        .sort(col.model.cast(order), maintain_order=True)
    )
    if differing.height:
        blocks.append(_differing_themes(differing))
    of_models: list[Block] = []
    for (model,), rows in themes.group_by("model", maintain_order=True):
        suffix = f", {model}" if themes["model"].n_unique() > 1 else ""
        of_words = rows.filter(col.concept != NET_TONE)
        per_hundred = of_words.with_columns(per_hundred=(100 * col.rate).round(1))
        title = f"Words of each theme per 100 words{suffix}"
        of_models.append(Heatmap.of(title, _by_group(per_hundred, "concept", "per_hundred")))
    if of_models:
        blocks.append(Details("Words of each theme per 100 words, by group", of_models))
    return blocks


def _differing_themes(rows: DataFrame) -> Table:
    """Return the themes in which groups differ, with words per 100 words."""
    names = names_of(rows, noun="theme")
    shares = {"words per 100": "rate", "others": "others_rate", "difference": "effect"}
    numbers = [
        Column(title, [f"{100 * share:.1f}" for share in rows[name]], "quantity")
        for title, name in shares.items()
    ]
    ends = zip(rows["low"], rows["high"], strict=True)
    intervals = [f"{100 * low:.1f} to {100 * high:.1f}" for low, high in ends]
    numbers.append(Column(interval_name(rows["level"][0]), intervals, "quantity"))
    numbers.append(Column.of(rows, "q", kind="probability", rank=1))
    note = "Words of the theme per 100 words of a description, on average; others: those of the other groups."
    return Table("Themes and tone in which groups differ", [*names, *numbers], len(names), note)


def _theme_headlines(themes: DataFrame) -> list[Headline]:
    """Return a headline about the themes and one about the tone, for the texts of a user."""
    themes = themes.with_columns(facing=facing().over("model"))
    headlines = []
    for _, rows in themes.group_by("model", maintain_order=True):
        of_themes = rows.filter(~col.concept.is_in([*TONES, NET_TONE]))
        headlines.append(_theme_headline(of_themes))
        net_tone = rows.filter(concept=NET_TONE)
        if net_tone.height:
            headlines.append(_tone_headline(net_tone))
    return headlines


def _theme_headline(rows: DataFrame) -> Headline:
    """Return the number of themes in which a group differs, and the largest difference."""
    number = rows["concept"].n_unique()
    differing = rows.filter("reported").sort("low", descending=True)
    if differing.is_empty():
        where = "the only theme" if number == 1 else f"any of {number:,} themes"
        return Headline(f"Themes: no difference between groups was shown in {where}")
    largest = differing.row(0, named=True)
    rate, others_rate = 100 * largest["rate"], 100 * largest["others_rate"]
    text = (
        f"Themes: groups differ in {differing['concept'].n_unique():,} of {number:,}. Largest"
        f" difference: {largest['identity']} → {largest['concept']}: {rate:.1f} of 100 words,"
        f" {largest['facing']} {others_rate:.1f}"
    )
    return Headline(text)


def _tone_headline(rows: DataFrame) -> Headline:
    """Return which group's texts have the most positive tone, if the groups differ."""
    differing = rows.filter("reported").sort("low", descending=True)
    if differing.is_empty():
        return Headline("Tone: no difference between groups was shown")
    largest = differing.row(0, named=True)
    text = (
        f"Tone: texts of the group {largest['identity']} are more positive: {100 * largest['rate']:.1f}"
        f" positive minus negative words per 100, {largest['facing']} {100 * largest['others_rate']:.1f}"
    )
    return Headline(text)


def _by_judge_and_words(associations: DataFrame, by_words: DataFrame) -> list[Block]:
    """Return one table of what the judge and words found over all locations.

    Concepts are the same if they share the stem of a word.
    """
    if by_words.is_empty():
        return []
    owner = ["model", "group"]
    columns = (*owner, "concept", "effect")
    of_judge = associations.filter(col.context.is_null()).select(*columns, by=lit("judge"))
    of_words = by_words.with_columns(group="identity").select(*columns, by=lit("words"))
    words = col.concept.str.to_lowercase().str.split(" ")
    word = pl.element()
    stems = words.list.eval(word.filter(word.str.len_chars() > 2).str.head(_STEM))
    by_stem = pl.concat([of_judge, of_words]).with_columns(stem=stems).explode("stem")
    is_shared = col.by.n_unique().over(*owner, "stem") > 1
    concepts = (
        by_stem.with_columns(shared=is_shared)
        .group_by(*owner, "by", "concept")
        .agg(col.shared.any(), col.effect.first())
        .sort("effect", descending=True)
    )
    is_of_judge = col.by == "judge"
    counts = {
        "found by judge": is_of_judge.sum(),
        "found by words": (~is_of_judge).sum(),
        "shared": (is_of_judge & col.shared).sum(),
    }
    names = {
        "by judge only": _first_concepts(is_of_judge & ~col.shared),
        "by words only": _first_concepts(~is_of_judge & ~col.shared),
    }
    table = concepts.group_by(owner).agg(**counts, **names).sort(owner)
    kinds: dict[str, Kind] = {**dict.fromkeys(counts, "count"), **dict.fromkeys(names, "text")}
    return [Table("Associations found with the judge and with words", columns_of(table, kinds), lead=2)]


def _first_concepts(is_chosen: Expr) -> Expr:
    """Return the names of the first concepts for which an expression is true."""
    return col.concept.filter(is_chosen).head(TOP_OF_PLACE).str.join(", ")


def _headline(
    total: Mapping[str, Any], strongest: DataFrame, associations: DataFrame, missing: DataFrame
) -> Headline:
    """Return the headline of one model.

    It states the number of associated concepts, the first of the `strongest`, and numbers of texts.

    Parameters
    ----------
    total
        The finding with the number of associations of the model.
    """
    model, count = named_model(total["model"]), total["estimate"]
    texts = _texts(total) + _descriptions(missing.filter(model=total["model"]))
    if count is None:
        return Headline(f"{model}: associations could not be counted", texts, model=total["model"])
    of_model = associations.filter(model=total["model"])
    concepts = of_model.filter(is_shown_first())["concept"].n_unique()
    text = f"{model}: {concepts:,} associated concept{'' if concepts == 1 else 's'} found"
    details = []
    first = strongest.filter(model=total["model"]).head(1)
    if not first.is_empty():
        association = first.row(0, named=True)
        text += f". Strongest: {_in_words(association)}"
        if association["low"] is not None:
            details.append(_difference(association))
        if association["next"] is not None:
            details.append(_next_group(association))
    details += _further(of_model, concepts)
    by_chance = f"{total['null_value']:.1f}" if total["null_value"] >= 0.05 else "fewer than 0.1"
    if count:
        details.append(
            f"By chance, {by_chance} associations would be found (groups shuffled, p = {total['p']:.2g})."
        )
    elif total["note"]:
        details.append(f"{total['note'][0].upper()}{total['note'][1:]}.")
    return Headline(text, " ".join([*details, texts]), model=total["model"])


def _further(associations: DataFrame, concepts: int) -> list[str]:
    """Return a sentence about the associations of a model that are not counted as associated concepts."""
    variants = associations["variant_of"].count()
    others = associations.filter(col.variant_of.is_null(), ~is_shown_first())
    general = others.filter(is_general()).height
    small = others.height - general
    several = associations.height - variants - small - general - concepts
    parts = []
    if variants:
        parts.append("1 is a variant of another" if variants == 1 else f"{variants:,} are variants of others")
    if small:
        verb = "differs" if small == 1 else "differ"
        parts.append(f"{small:,} {verb} by less than {LEAST_SHOWN * 100:g} points")
    if general:
        parts.append(
            "1 is a word that says little alone"
            if general == 1
            else f"{general:,} are words that say little alone"
        )
    if several:
        verb = "repeats" if several == 1 else "repeat"
        other = "group or location" if associations["context"].count() else "group"
        parts.append(f"{several:,} {verb} a concept for another {other}")
    if not parts:
        return []
    return [f"Of {associations.height:,} associations in all, {', '.join(parts)}."]


def _texts(total: Mapping[str, Any]) -> str:
    """Return a sentence with the number of texts, and of those without a readable response."""
    outcomes = [f"{total[name]:,} {name}" for name in OUTCOMES if total[name] and name != "answered"]
    suffix = f" ({', '.join(outcomes)})" if outcomes else ""
    return f"Texts: {total['attempts']:,}{suffix}."


def _in_words(association: Mapping[str, Any]) -> str:
    """Return the group, the concept, the location and the shares of an association."""
    place = f" ({association['context']})" if association["context"] else ""
    text = f"{association['group']} → {association['said']}{place}"
    if association["others_rate"] is None:
        return text
    rate, others_rate = 100 * association["rate"], 100 * association["others_rate"]
    return (
        f"{text}: in {rate:.1f}% of {association['lists']:,} descriptions, "
        f"{association['facing']} {others_rate:.1f}% of {association['others_lists']:,}"
    )


def _next_group(association: Mapping[str, Any]) -> str:
    """Return a sentence about the other group with the highest share of the concept of an association."""
    name, rate = association["runner_up"], association["runner_up_rate"]
    if rate > association["rate"]:
        may_be_chance = ", which may be chance" if association["may_lead"] else ""
        return f"{name} has a higher share, {rate:.1%}{may_be_chance}."
    may_be_first = ", and may be as high" if association["may_lead"] else ""
    return f"Next is {name} with {rate:.1%}{may_be_first}."


def _difference(association: Mapping[str, Any]) -> str:
    """Return a sentence with the difference of an association and its interval."""
    low = association["low"]
    high = association["high"]
    unit = association["unit"]
    value = quantity(association["estimate"], low, high, unit)
    ends = interval(low, high, unit)
    name = interval_name(association["level"])
    return f"The difference for “{association['said']}” is {value} ({name} {ends}, widened for selection)."


def _descriptions(missing: DataFrame) -> str:
    """Return a sentence with the number of character descriptions that were used.

    It also states how many the texts should give.

    Parameters
    ----------
    missing
        Findings `missing` of one model.
    """
    expected, used = missing.drop_nulls("group").select(col("attempts", "answered").sum()).row(0)
    if not expected:
        return ""
    percent = 100 * used / expected
    # Rounding must not turn a share below 100% into 100%.
    share = ">99.9%" if 99.9 < percent < 100 else f"{percent:.3g}%"
    return f" Character descriptions used: {used:,} of {expected:,} ({share})."


_OF_GROUPS: Final[Mapping[str, tuple[str, Kind, int]]] = {
    "associations": ("associations", "count", 0),
    "overall": ("all locations together", "count", 2),
    "concepts": ("different concepts", "count", 1),
    "mean_effect": ("mean difference", "number", 3),
    "mean_score": ("mean score", "number", 3),
    "mean_p": ("mean p", "probability", 4),
    "missing": ("missing descriptions", "percent", 0),
    "mean_unattributed": ("words not attributed", "percent", 5),
}
"""Title, kind and rank of the numbers of a group."""


def _of_groups(counts: DataFrame, associations: DataFrame) -> Table:
    """Return the numbers of each group over all locations."""
    rows = counts.pivot("metric", index=["model", "group"], values="estimate", maintain_order=True)
    if associations["context"].count():
        overall = associations.group_by("model", "group").agg(overall=col.context.null_count())
        rows = beside(rows, overall, "model", "group").with_columns(col.overall.fill_null(0))
    names = [Column.of(rows, "group", kind="name")]
    if rows["model"].n_unique() > 1:
        names.insert(0, Column.of(rows, "model", kind="name"))
    columns = [
        Column.of(rows, metric, *presentation)
        for metric, presentation in _OF_GROUPS.items()
        if metric in rows.columns
    ]
    note = _ATTRIBUTED if "mean_unattributed" in rows.columns else ""
    return Table("Associations of each group", [*names, *columns], lead=len(names), note=note)


def _by_location(counts: DataFrame, associations: DataFrame) -> list[Block]:
    """Return the number of associations at each location, and the strongest of each."""
    place = ["model", "context", "group"]
    concept = pl.format("{} ({})", "said", col.estimate.round(2))
    strongest = associations.group_by(place).agg(said=concept.head(TOP_OF_PLACE).str.join(", "))
    by_place = counts.join(strongest, on=place, how="left")
    blocks: list[Block] = []
    for (model,), rows in by_place.group_by("model", maintain_order=True):
        if not rows["estimate"].sum():
            continue
        title = f"{model}: associations by location and group"
        counted = Heatmap.of(title, _by_group(rows, "context", "estimate"), "count")
        words = _by_group(rows, "context", "said")
        columns = [Column.of(words, "context", "location", "name")]
        columns += [Column.of(words, group) for group in words.columns[1:]]
        table = Table("Up to five per location and group", columns)
        blocks.append(Details(f"{model}: associations at each location", [counted, table]))
    return blocks


def _by_group(rows: DataFrame, index: str, values: str) -> DataFrame:
    """Return the values with one column per group, sorted, after the `index`.

    Where there are several values, the first one is returned.
    """
    table = rows.pivot("group", index=index, values=values, aggregate_function="first", sort_columns=True)
    return table.sort(index)


def _evidence(model: str, associations: DataFrame) -> Details:
    """Return the evidence for the strongest associations of each group, with example sentences."""
    evidence = {
        "counts": col.counts,
        "next group": pl.format("{} {}%", "runner_up", percent("runner_up_rate")),
        "SD between names": pl.format("{} points", percent("name_spread")),
        "confirmed in both halves": when("confirmed").then(lit("yes")).when(~col.confirmed).then(lit("no")),
        "difference in each half": pl.format(
            "{} and {}", col.effect_first.round(3), col.effect_second.round(3)
        ),
        "top descriptors": _top_descriptors(),
        "depends on": col.rests_on,
        "p, descriptors shuffled": col.permutation_p.round(3).cast(String),
    }
    strongest = associations.group_by("group", maintain_order=True).head(TOP).with_columns(**evidence)
    blocks: list[Block] = []
    for (group,), rows in strongest.group_by("group", maintain_order=True):
        names, numbers = names_of(rows, without=("group",)), numbers_of(rows)
        columns = [Column.of(rows, name) for name in evidence if rows[name].count()]
        blocks.append(Table(f"{group}: the strongest", [*names, *numbers, *columns]))
        examples = rows.explode("examples").drop_nulls("examples").select("said", "examples")
        sentences = [Response(None, text, label=concept) for concept, text in examples.iter_rows()]
        blocks.append(Responses(f"{group}: sentences from the texts", sentences))
    return Details(f"{model}: the strongest of each group, with sentences", blocks)


def _top_descriptors() -> Expr:
    """Return the descriptors with the highest counts of a concept, in words."""
    descriptor = pl.element().struct
    share = 100 * descriptor.field("count") / descriptor.field("lists")
    named = pl.format("{} ({}%)", descriptor.field("descriptor"), share.round(1))
    names = col.descriptors.list.head(DESCRIPTORS_NAMED).list.eval(named).list.join(", ")
    more = col.descriptors.list.slice(DESCRIPTORS_NAMED).list.len()
    and_more = when(more > 0).then(pl.format(" and {} more", more)).otherwise(lit(""))
    return pl.concat_str(names, and_more)


_EXCLUDED: Final = {
    "definitional": ("Excluded as definitional", "belong to the group by definition"),
    "echo": ("Excluded as echo of the prompt", "contain a word of the prompt of a text"),
    "agreement": (
        "Held back as grammatical agreement",
        "may be forms of words that agree with the gender of the person",
    ),
    "names": ("Excluded as names", "are names of people or places, or have the name of a person"),
}
"""Title and reason for each kind of excluded concepts; the kind is the value of -P keep."""


def _excluded(associations: DataFrame, kind: str) -> Table | Details:
    """Return one row per model, group and excluded concept; a long table is folded.

    The row is the association over all locations if there is one, else the strongest.
    """
    over_all_first = associations.sort(col.context.is_null(), descending=True, maintain_order=True)
    rows = over_all_first.unique(["model", "group", "concept"], keep="first", maintain_order=True)
    names = names_of(rows)
    title, reason = _EXCLUDED[kind]
    columns = [*names, numbers_of(rows)[-1], Column.of(rows, "counts"), Column.of(rows, "reason")]
    note = (
        f"These {rows.height:,} concepts {reason}; they are not counted as associations. "
        f"To include them: -P keep={kind}."
    )
    table = Table(title, columns, lead=len(names), note=note)
    if rows.height <= MOST_EXCLUDED:
        return table
    return Details(f"{title}: {rows.height:,} concepts", [table])


def _missing(findings: DataFrame, lists: DataFrame) -> list[Block]:
    """Report missing lists.

    Their number, the most frequent reason, and whether their share differs between groups.
    """
    blocks: list[Block] = []
    for finding in findings.filter(col.group.is_null() & (col.estimate > 0)).iter_rows(named=True):
        model = finding["model"]
        lists_of_model = lists.filter(model=model)
        missing = lists_of_model.filter(status="missing")
        difference = finding["note"] or "no difference between groups was shown"
        text = (
            f"{model}: {missing.height:,} of {lists_of_model.height:,} character descriptions are missing"
            f"{_most_frequent_reason(missing)}; {difference} ({finding['method']}, p = {finding['p']:.2g})."
        )
        blocks.append(Callout(text) if finding["note"] else Text(text))
    return blocks


def _most_frequent_reason(missing: DataFrame) -> str:
    """Return the most frequent reason why lists are missing, in brackets; empty if none is stated."""
    problems = missing["problem"].str.replace(" name .*$", " name the person").drop_nulls()
    if problems.is_empty():
        return ""
    return f" (most frequent reason: {problems.mode().sort()[0]})"
