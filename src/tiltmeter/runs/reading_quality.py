"""How well the responses of a run were read: shares of unread responses, and agreement with labels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import polars as pl
from polars import DataFrame, Float64, Int64, String, col, lit, when

from tiltmeter import stats
from tiltmeter.blocks import Block, Callout, Details, Kind, Table, Text, columns_of
from tiltmeter.errors import InputError, TiltmeterError
from tiltmeter.files.paths import is_file
from tiltmeter.probes.listing import PROBES
from tiltmeter.readers.outcomes import outcome_counts
from tiltmeter.runs.faults import FAILED, UNREAD, most_frequent, reasons, remedy_of, words_of
from tiltmeter.runs.folder import LABELS_FILE, RunFolder, reading
from tiltmeter.runs.stage_store import read_table
from tiltmeter.schema import LABELS, LABELS_TABLE, REFUSED, UNCLEAR, conform

LEVEL = 0.95
MUCH_UNREAD = 0.1
"""Share of unread responses from which the report begins with it."""
MOSTLY_UNREAD = 0.5
"""Share of unread responses from which constrained answers are advised before labels."""
MUCH_WRONG = 0.02
"""If the share of responses read as another label is certainly above this, the labels contradict the reading.
"""
ROW = ("model", "part", "prompt_id", "repetition", "about")
"""Columns that identify what is labelled."""
QUALITY = {
    **dict.fromkeys(("model", "part", "label"), String),  # `label` null: all labels together
    "labelled": Int64,
    "precision": Float64,  # share of the responses read as this label that are labelled so; all: share read right of those read
    "recall": Float64,  # share of the responses labelled so that are read so
    "unread": Float64,  # share of the responses labelled so that are not read
    **dict.fromkeys(
        ("wrong", "low", "high"), Float64
    ),  # all: share of responses read as another label, with interval; a number: mean error
    "annotators": String,
    "kappa": Float64,  # agreement of two annotators beyond chance
}
"""Columns of `reading_quality`. Shares are weighted, so that they estimate those of all responses of the
part."""


def labels_of(folder: RunFolder) -> DataFrame:
    """Return the labels of a run (columns LABELS) with the current reading; no rows if there are none."""
    path = folder.path / LABELS_FILE
    if not is_file(path):
        return DataFrame(schema=LABELS)
    stored = read_table(path, LABELS_TABLE)
    if wrong := impossible_size(stored):
        raise InputError(f"{path}: {wrong}; restore the file, or remove it and add the labels again")
    given = folder.beside(stored, "measures", col.label.alias("now"), lit(True).alias("there"))
    return given.with_columns(
        read=when(col.about.is_null() & col.there).then("now").otherwise("read")
    ).select(*LABELS)


def impossible_size(labels: DataFrame) -> str | None:
    """Return a sentence about a stratum whose size is impossible; None if there is none.

    A `stratum_size` is impossible if the stratum has more labelled rows.
    """
    strata = labels.group_by("model", "part", "stratum", maintain_order=True)
    sizes = strata.agg(
        pl.struct(ROW).n_unique().alias("rows"),
        smallest=col.stratum_size.min(),
        largest=col.stratum_size.max(),
    )
    wrong = sizes.filter((col.smallest < 1) | (col.largest < col.rows))
    if wrong.is_empty():
        return None
    row = wrong.row(0, named=True)
    size = row["smallest"] if row["smallest"] < 1 else row["largest"]
    rows = "1 labelled row" if row["rows"] == 1 else f"{row['rows']:,} labelled rows"
    return f"the stratum {row['stratum']!r} of {row['part']} has {rows} and the stratum_size {size:,}"


def reading_quality(folder: RunFolder) -> DataFrame:
    """Compare what was read with the labels of a run (columns QUALITY).

    For each part and model, all labels and each label.
    """
    found = [DataFrame(schema=QUALITY)]
    labels = labels_of(folder).drop_nulls("label")
    for (model, part), mine in labels.group_by("model", "part", maintain_order=True):
        said = when(~col.label.is_in([REFUSED, UNCLEAR])).then("label")
        weight = col.stratum_size / pl.struct(ROW).n_unique().over("stratum") / pl.len().over(ROW)
        rows = mine.with_columns(said=said, weight=weight)
        known, read = rows.drop_nulls("said"), rows.drop_nulls("read")
        right = _share(col.read == col.said)
        recall, precision = (
            (right.alias("recall"), _share(col.read.is_null()).alias("unread")),
            right.alias("precision"),
        )
        of_labels = (
            known.group_by(label="said")
            .agg(recall)
            .join(read.group_by(label="read").agg(precision), on="label", how="full", coalesce=True)
        )
        whole = pl.concat([known.select(recall), read.select(precision)], how="horizontal")
        by_row = rows.group_by(ROW, maintain_order=True).agg(
            col.weight.sum(), wrong=(col.weight * (col.read != col.said.fill_null(""))).sum()
        )
        total, wrong = (float(by_row[name].sum()) for name in ("weight", "wrong"))
        ends = stats.weighted_sum_interval(
            by_row.filter(col.wrong > 0)["wrong"],
            by_row["weight"].max(),
            LEVEL,  # type: ignore[arg-type]
        )
        low, high = (min(end / total, 1.0) for end in ends)
        names = sorted(mine["annotator"].unique())
        whole = whole.with_columns(
            wrong=wrong / total,
            low=low,
            high=high,
            annotators=lit(", ".join(names)),
            kappa=_kappa(mine, names),
        )
        errors = known.select(
            error=col.read.cast(Float64, strict=False) - col.said.cast(Float64, strict=False), weight="weight"
        )
        if errors.height and not errors["error"].null_count():
            mean = errors.select((col.error * col.weight).sum() / col.weight.sum()).item()
            of_labels, whole = of_labels.clear(), whole.select("annotators", "kappa", wrong=lit(mean))
        parts = pl.concat([whole, of_labels.sort("label")], how="diagonal")
        found.append(
            conform(
                parts.with_columns(model=lit(model), part=lit(part), labelled=lit(by_row.height)), QUALITY
            )
        )
    return pl.concat(found)


def _share(which: pl.Expr) -> pl.Expr:
    """Return the weighted share of the rows for which an expression is true (not null)."""
    return (col.weight * which).sum() / col.weight.sum()


def _kappa(labels: DataFrame, names: Sequence[str]) -> pl.Expr:
    """Return Cohen's kappa of the two annotators with the most common rows, weighting all rows equally.

    Null without common rows.
    """
    from sklearn.metrics import cohen_kappa_score  # lazy: it takes a second to import

    pairs = [
        labels.filter(annotator=one).join(labels.filter(annotator=other), on=ROW, nulls_equal=True)
        for one, other in itertools.combinations(names, 2)
    ]
    both = max(pairs, key=len, default=labels.clear())
    if not both.height:
        return lit(None, Float64)
    if (
        pl.concat([both["label"], both["label_right"]]).n_unique() == 1
    ):  # both always gave the same label, for which kappa is 0/0
        return lit(1.0)
    return lit(cohen_kappa_score(both["label"], both["label_right"]), Float64)


def _outcomes(folder: RunFolder, findings: DataFrame) -> DataFrame:
    """Return the outcomes of all attempts of each `model` and `part` with findings.

    The columns are `attempts` and one for each outcome.

    The counts are those of the measures. A finding may count something else than attempts, such as
    descriptions of characters.
    """
    by_part = folder.scan("measures").group_by("model", "part").agg(outcome_counts())
    with reading(folder.table_path("measures")):
        counts = by_part.collect()
    parts = findings.select("model", "part").unique(maintain_order=True)
    return parts.join(counts, on=["model", "part"], maintain_order="left")


def _unanswered(folder: RunFolder, parts: DataFrame) -> list[str]:
    """Return a sentence for each part of which no response came, with the kinds of the failures."""
    design = folder.scan("design").select("prompt_id", "part")
    sentences = []
    for model, part, count in parts.select("model", "part", "failed").iter_rows():
        mine = (
            folder.scan("responses")
            .filter(model=model)
            .join(design.filter(part=part), on="prompt_id", how="semi")
        )
        with reading(folder.table_path("responses")):
            kinds = mine.select(col.error.str.extract("^([^:]*)").drop_nulls().unique().sort()).collect()[
                "error"
            ]
        why = f" ({', '.join(kinds)})" if kinds.len() else ""
        sentences.append(
            f"{model}: no response came for {part}: all {count:,} requests failed{why}, so it has no result."
        )
    return sentences


def _without_text(folder: RunFolder, parts: DataFrame) -> tuple[list[str], DataFrame]:
    """Separate the parts that are unread because their responses are empty or cut off.

    Return a sentence for each of them, and the rows of the other parts.
    """
    sentences = []
    others = []
    for model, part, share in parts.select("model", "part", "share").iter_rows():
        with reading(folder.table_path("measures")):
            measures = (
                folder.scan("measures").filter(model=model, part=part).select(*ROW[:-1], "outcome").collect()
            )
        responses = folder.beside(
            measures, "responses", "status", "answer", "thinking", "finish_reason", "error"
        )
        kinds = reasons(responses, measures["outcome"])
        kind = most_frequent(kinds.replace(FAILED, None)) if kinds.replace(FAILED, None).count() else UNREAD
        others.append(kind == UNREAD)
        if kind != UNREAD:
            words = words_of(responses, kinds, None)
            remedy = remedy_of(kind, responses.filter(kinds == kind), None, ())
            sentences.append(
                f"{model}: many responses could not be read ({part} {share:.0%}): {words}; {remedy}."
            )
    return sentences, parts.filter(others)


def _advice(folder: RunFolder, model: str, mostly_unread: Sequence[str]) -> str:
    """Return what to do about unread responses.

    Constrained answers come first for parts that are mostly unread and accept them, then labels.

    Parameters
    ----------
    mostly_unread
        Parts of the model of which at least MOSTLY_UNREAD of the responses are unread.
    """
    about = folder.read_json()
    models = {one["name"]: one for one in about["models"]}
    supports = models.get(model, {}).get(
        "constrains", True
    )  # unknown in runs of earlier versions: the advice says so
    fits = [part for part in mostly_unread if _has_allowed_answers(part)]
    label = "Label a sample to include them: tiltmeter label RUN"
    if (
        not fits
        or not supports
        or about["params"].get("answers") == "constrained"
        or about["definition"] != "default"
    ):
        return label
    unknown = (
        ""
        if "constrains" in models.get(model, {})
        else ", if the model's endpoint accepts a list of allowed answers"
    )
    return (
        f"For {', '.join(fits)}, first run the study again with constrained answers (-P answers=constrained){unknown}; "
        f"{label[0].lower()}{label[1:]}"
    )


def _has_allowed_answers(part: str) -> bool:
    """Return whether a part is an installed probe whose answers can be constrained."""
    try:
        return bool(getattr(PROBES.load(part), "allowed_answers", ()))
    except TiltmeterError:  # a part of another method, or a probe that is not installed here
        return False


def quality_table(quality: DataFrame) -> Table:
    """Return a table of reading quality (QUALITY)."""
    kinds: dict[str, Kind] = {
        "labelled": "count",
        "kappa": "number",
        "error": "signed",
        **dict.fromkeys(("precision", "recall", "unread", "wrong"), "percent"),
    }
    shown = quality.select(
        *("model", "part", col.label.fill_null("all"), "labelled", "precision", "recall", "unread"),
        wrong=when(col.high.is_not_null()).then("wrong"),
        interval=pl.format("{}% to {}%", (100 * col.low).round(1), (100 * col.high).round(1)),
        error=when(col.high.is_null()).then("wrong"),
        annotators=col.annotators.fill_null(""),
        kappa="kappa",
    )
    empty = [name for name in ("wrong", "interval", "error", "kappa") if not shown[name].count()]
    columns = columns_of(shown.drop(empty), kinds)
    note = "Precision: share of the responses read as the label that are labelled so. Recall: share of those labelled so that are read so."
    return Table("How well the responses were read", columns, lead=3, note=note)


def reading_blocks(folder: RunFolder, findings: DataFrame) -> list[Block]:
    """Return what a reader must know first about the reading.

    Much is unread, or how a labelled sample compares.
    """
    made: list[Block] = []
    read = _outcomes(folder, findings)
    made += [
        Callout(sentence)
        for sentence in _unanswered(folder, read.filter(col.failed == col.attempts, col.attempts > 0))
    ]
    shares = read.filter(col.failed < col.attempts).with_columns(
        share=(col.unreadable + col.empty) / (col.attempts - col.failed)
    )
    many = shares.filter(col.share >= MUCH_UNREAD)
    without_text, many = _without_text(folder, many)
    made += [Callout(sentence) for sentence in without_text]
    for (model,), mine in many.group_by("model", maintain_order=True):
        parts = ", ".join(f"{part} {value:.0%}" for part, value in mine.select("part", "share").iter_rows())
        unread = mine.filter(col.share >= MOSTLY_UNREAD)["part"].to_list()
        advice = _advice(folder, str(model), unread)
        made.append(
            Callout(
                f"{model}: many responses could not be read ({parts}); the results describe the others. {advice}"
            )
        )
    measures = folder.scan("measures")
    if "second_reader" in measures.collect_schema():
        ended = measures.group_by("model", maintain_order=True).agg(
            col.second_reader.count(), col.second_reader.drop_nulls().first().alias("judge"), pl.len()
        )
        for model, count, judge, attempts in ended.collect().iter_rows():
            made.append(
                Text(
                    f"{model}: the judge {judge} read {count:,} of {attempts:,} responses, which the rules had left unread."
                )
            )
    quality = reading_quality(folder)
    corrected = (
        findings.filter(col.method.str.contains("corrected by labels").fill_null(False))
        .select("model", "part")
        .unique()
        .rows()
    )
    for row in quality.filter(col.label.is_null(), col.high.is_not_null()).iter_rows(named=True):
        ends = f"{row['wrong']:.1%} of the responses ({row['low']:.1%} to {row['high']:.1%})"
        sample = f"{row['model']}, {row['part']}: in a sample of {row['labelled']:,} labelled by {row['annotators']}"
        after = " The results are corrected." if (row["model"], row["part"]) in corrected else ""
        if row["low"] > MUCH_WRONG:
            made.append(
                Callout(f"{sample}, the reading is contradicted: it gives another label for {ends}.{after}")
            )
        else:
            made.append(
                Text(
                    f"{sample}, the reading gives another label for {ends} and none for {row['unread']:.1%}.{after}"
                )
            )
    return [*made, *([Details("Labels", [quality_table(quality)])] if quality.height else [])]
