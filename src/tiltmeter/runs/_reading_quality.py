"""How well the responses of a run were read: shares of unread responses, and agreement with labels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter._files.paths import is_file
from tiltmeter.blocks import Block, Callout, Details, Kind, Table, Text, columns_of
from tiltmeter.errors import InputError, TiltmeterError
from tiltmeter.probes._listing import PROBES
from tiltmeter.readers.outcomes import outcome_counts
from tiltmeter.runs._faults import FAILED, UNREAD, most_frequent, reasons, remedy_of, words_of
from tiltmeter.runs._folder import LABELS_FILE, RunFolder, reading
from tiltmeter.runs._short_lists import first_of
from tiltmeter.runs._stage_store import read_table
from tiltmeter.schema import LABELS, LABELS_TABLE, REFUSED, UNCLEAR, conform

LEVEL: Final = 0.95
MUCH_UNREAD: Final = 0.1
"""Share of unread responses from which the report begins with it."""
MOSTLY_UNREAD: Final = 0.5
"""Share of unread responses from which constrained answers are advised before labels."""
MUCH_WRONG: Final = 0.02
"""If the share of responses read as another label is certainly above this, the labels contradict the reading.
"""
ROW: Final = ("model", "part", "prompt_id", "repetition", "about")
"""Columns that identify what is labelled."""
QUALITY: Final = {
    **dict.fromkeys(("model", "part", "label"), String),  # `label` null: all labels together
    "labelled": Int64,
    # Share of the responses read as this label that are labelled so; all: share read right of those read.
    "precision": Float64,
    "recall": Float64,  # share of the responses labelled so that are read so
    "unread": Float64,  # share of the responses labelled so that are not read
    # All: share of responses read as another label, with interval; a number: mean error.
    **dict.fromkeys(("wrong", "low", "high"), Float64),
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
    problem = impossible_size(stored)
    if problem is not None:
        raise InputError(f"{path}: {problem}; restore the file, or remove it and add the labels again")
    labels = folder.beside(stored, "measures", col.label.alias("now"), lit(True).alias("measured"))
    read = when(col.about.is_null() & col.measured).then("now").otherwise("read")
    return labels.with_columns(read=read).select(*LABELS)


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
    impossible = sizes.filter((col.smallest < 1) | (col.largest < col.rows))
    if impossible.is_empty():
        return None
    row = impossible.row(0, named=True)
    size = row["smallest"] if row["smallest"] < 1 else row["largest"]
    rows = "1 labelled row" if row["rows"] == 1 else f"{row['rows']:,} labelled rows"
    return f"the stratum {row['stratum']!r} of {row['part']} has {rows} and the stratum_size {size:,}"


def reading_quality(folder: RunFolder) -> DataFrame:
    """Compare what was read with the labels of a run (columns QUALITY).

    For each part and model, all labels and each label.
    """
    tables = [DataFrame(schema=QUALITY)]
    labels = labels_of(folder).drop_nulls("label")
    for (model, part), labels_of_part in labels.group_by("model", "part", maintain_order=True):
        quality = _quality_of_part(labels_of_part).with_columns(model=lit(model), part=lit(part))
        tables.append(conform(quality, QUALITY))
    return pl.concat(tables)


def _quality_of_part(labels: DataFrame) -> DataFrame:
    """Return the columns of QUALITY after `part`: one row for all labels, then one for each label."""
    meaning = when(~col.label.is_in([REFUSED, UNCLEAR])).then("label")
    weight = col.stratum_size / pl.struct(ROW).n_unique().over("stratum") / pl.len().over(ROW)
    rows = labels.with_columns(meant=meaning, weight=weight)
    meant, read = rows.drop_nulls("meant"), rows.drop_nulls("read")
    annotators = sorted(labels["annotator"].unique())
    by_row = rows.group_by(ROW, maintain_order=True).agg(
        col.weight.sum(), wrong=(col.weight * (col.read != col.meant.fill_null(""))).sum()
    )
    agreement = {"annotators": lit(", ".join(annotators)), "kappa": _kappa(labels, annotators)}
    error = _mean_error(meant)
    if error is None:
        overall = pl.concat([meant.select(_recall()), read.select(_precision())], how="horizontal")
        overall = overall.with_columns(**_share_wrong(by_row), **agreement)
        quality = pl.concat([overall, _quality_of_labels(meant, read)], how="diagonal")
    else:
        quality = DataFrame({"wrong": [error]}).with_columns(**agreement)
    return quality.with_columns(labelled=lit(by_row.height))


def _quality_of_labels(meant: DataFrame, read: DataFrame) -> DataFrame:
    """Return precision, recall and share of unread responses of each label."""
    recall = meant.group_by(label="meant").agg(_recall())
    precision = read.group_by(label="read").agg(_precision())
    return recall.join(precision, on="label", how="full", coalesce=True).sort("label")


def _recall() -> list[pl.Expr]:
    """Return the shares of labelled responses that are read so, and that are unread."""
    return [_share(col.read == col.meant).alias("recall"), _share(col.read.is_null()).alias("unread")]


def _precision() -> pl.Expr:
    """Return the share of read responses that are labelled so."""
    return _share(col.read == col.meant).alias("precision")


def _share(condition: pl.Expr) -> pl.Expr:
    """Return the weighted share of the rows for which a condition is true (not null)."""
    return (col.weight * condition).sum() / col.weight.sum()


def _share_wrong(by_row: DataFrame) -> dict[str, float]:
    """Return the share of responses read as another label (`wrong`) and the ends of its interval.

    Parameters
    ----------
    by_row
        `weight` of each labelled row, and `wrong`, the part of it whose labels are not those read.
    """
    total = float(by_row["weight"].sum())
    wrong = by_row.filter(col.wrong > 0)["wrong"]
    largest = float(by_row.select(col.weight.max()).item())
    low, high = stats.weighted_sum_interval(wrong, largest, LEVEL)
    return {
        "wrong": float(by_row["wrong"].sum()) / total,
        "low": min(low / total, 1.0),
        "high": min(high / total, 1.0),
    }


def _mean_error(meant: DataFrame) -> float | None:
    """Return the weighted mean of read minus labelled numbers; None if a value is no number."""
    error = col.read.cast(Float64, strict=False) - col.meant.cast(Float64, strict=False)
    errors = meant.select(error=error, weight="weight")
    if errors.is_empty() or errors["error"].null_count():
        return None
    mean: float = errors.select((col.error * col.weight).sum() / col.weight.sum()).item()
    return mean


def _kappa(labels: DataFrame, annotators: Sequence[str]) -> pl.Expr:
    """Return Cohen's kappa of the two annotators with the most common rows, weighting all rows equally.

    Null without common rows.
    """
    from sklearn.metrics import cohen_kappa_score  # lazy: it takes a second to import

    pairs = [
        labels.filter(annotator=first).join(labels.filter(annotator=second), on=ROW, nulls_equal=True)
        for first, second in itertools.combinations(annotators, 2)
    ]
    both = max(pairs, key=len, default=labels.clear())
    if both.is_empty():
        return lit(None, Float64)
    if pl.concat([both["label"], both["label_right"]]).n_unique() == 1:
        return lit(1.0)  # both always gave the same label, for which kappa is 0/0
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
        prompts = design.filter(part=part)
        responses = folder.scan("responses").filter(model=model).join(prompts, on="prompt_id", how="semi")
        failure = col.error.str.extract("^([^:]*)").drop_nulls().unique().sort()
        with reading(folder.table_path("responses")):
            failures = responses.select(failure).collect()["error"]
        suffix = f" ({', '.join(failures)})" if failures.len() else ""
        sentences.append(
            f"{model}: no response came for {part}: all {count:,} requests failed{suffix}, "
            "so it has no result."
        )
    return sentences


def _without_text(folder: RunFolder, parts: DataFrame) -> tuple[list[str], DataFrame]:
    """Separate the parts that are unread because their responses are empty or cut off.

    Return a sentence for the parts of each model with the same remedy, and the rows of the other parts.
    """
    unread: dict[tuple[str, str], list[tuple[str, DataFrame, Series]]] = {}
    has_text = []
    attempt = ("model", "part", "prompt_id", "repetition")
    for model, part, share in parts.select("model", "part", "share").iter_rows():
        with reading(folder.table_path("measures")):
            outcomes = folder.scan("measures").filter(model=model, part=part).select(*attempt, "outcome")
            measures = outcomes.collect()
        responses = folder.beside(
            measures, "responses", "status", "answer", "thinking", "finish_reason", "error"
        )
        kinds = reasons(responses, measures["outcome"])
        received = kinds.replace(FAILED, None)
        kind = most_frequent(received) if received.count() else UNREAD
        has_text.append(kind == UNREAD)
        if kind != UNREAD:
            remedy = remedy_of(kind, responses.filter(kinds == kind), None, ())
            unread.setdefault((model, remedy), []).append((f"{part} {share:.0%}", responses, kinds))
    sentences = []
    for (model, remedy), of_parts in unread.items():
        names = first_of([name for name, _, _ in of_parts])
        responses = pl.concat(responses for _, responses, _ in of_parts)
        words = words_of(responses, pl.concat(kinds for _, _, kinds in of_parts), None)
        sentences.append(f"{model}: many responses could not be read ({names}): {words}; {remedy}.")
    return sentences, parts.filter(has_text)


def _advice(folder: RunFolder, model: str, mostly_unread: Sequence[str]) -> str:
    """Return what to do about unread responses.

    Constrained answers come first for parts that are mostly unread and accept them, then labels.

    Parameters
    ----------
    mostly_unread
        Parts of the model of which at least MOSTLY_UNREAD of the responses are unread.
    """
    about = folder.read_json()
    documents = [document for document in about["models"] if document["name"] == model]
    document = documents[-1] if documents else {}
    can_constrain = document.get("constrains", True)
    is_constrained = about["params"].get("answers") == "constrained"
    parts = [part for part in mostly_unread if _has_allowed_answers(part)]
    if not can_constrain or is_constrained or about["definition"] != "default" or not parts:
        return "Label a sample to include them: tiltmeter label RUN"
    condition = ""
    if "constrains" not in document:  # a run of an earlier version, which does not say it
        condition = ", if the model's endpoint accepts a list of allowed answers"
    return (
        f"For {', '.join(parts)}, first run the study again with constrained answers "
        f"(-P answers=constrained){condition}; label a sample to include them: tiltmeter label RUN"
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
        "precision": "percent",
        "recall": "percent",
        "unread": "percent",
        "wrong": "percent",
        "error": "signed",
        "kappa": "number",
    }
    is_number = col.high.is_null()
    rows = quality.select(
        "model",
        "part",
        col.label.fill_null("all"),
        "labelled",
        "precision",
        "recall",
        "unread",
        wrong=when(~is_number).then("wrong"),
        interval=pl.format("{}% to {}%", (100 * col.low).round(1), (100 * col.high).round(1)),
        error=when(is_number).then("wrong"),
        annotators=col.annotators.fill_null(""),
        kappa="kappa",
    )
    empty = [name for name in ("wrong", "interval", "error", "kappa") if not rows[name].count()]
    note = (
        "Precision: share of the responses read as the label that are labelled so. "
        "Recall: share of those labelled so that are read so."
    )
    columns = columns_of(rows.drop(empty), kinds)
    return Table("How well the responses were read", columns, lead=3, note=note)


def reading_blocks(folder: RunFolder, findings: DataFrame) -> list[Block]:
    """Return what a reader must know first about the reading.

    Much is unread, or how a labelled sample compares.
    """
    blocks = _unread_blocks(folder, findings)
    blocks += _second_reader_blocks(folder)
    quality = reading_quality(folder)
    is_corrected = col.method.str.contains("corrected by labels").fill_null(False)
    corrected = set(findings.filter(is_corrected).select("model", "part").iter_rows())
    for row in quality.filter(col.label.is_null(), col.high.is_not_null()).iter_rows(named=True):
        blocks.append(_agreement_block(row, corrected=(row["model"], row["part"]) in corrected))
    if quality.height:
        blocks.append(Details("Labels", [quality_table(quality)]))
    return blocks


def _unread_blocks(folder: RunFolder, findings: DataFrame) -> list[Block]:
    """Return what is said about parts without responses, and those with many unread ones."""
    outcomes = _outcomes(folder, findings)
    failed = outcomes.filter(col.failed == col.attempts, col.attempts > 0)
    received = col.attempts - col.failed
    share = (col.unreadable + col.empty) / received
    shares = outcomes.filter(col.failed < col.attempts).with_columns(share=share)
    worst_first = shares.sort("share", descending=True, maintain_order=True)
    much_unread = worst_first.filter(col.share >= MUCH_UNREAD)
    without_text, much_unread = _without_text(folder, much_unread)
    blocks: list[Block] = [Callout(sentence) for sentence in _unanswered(folder, failed)]
    blocks += [Callout(sentence) for sentence in without_text]
    for (model,), rows in much_unread.group_by("model", maintain_order=True):
        shares_of_parts = rows.select("part", "share").iter_rows()
        parts = first_of([f"{part} {share:.0%}" for part, share in shares_of_parts])
        mostly_unread = rows.filter(col.share >= MOSTLY_UNREAD)["part"].to_list()
        advice = _advice(folder, str(model), mostly_unread)
        blocks.append(
            Callout(
                f"{model}: many responses could not be read ({parts}); "
                f"the results describe the others. {advice}"
            )
        )
    return blocks


def _second_reader_blocks(folder: RunFolder) -> list[Block]:
    """Return how many responses a judge read that the rules had left unread."""
    measures = folder.scan("measures")
    if "second_reader" not in measures.collect_schema():
        return []
    by_model = measures.group_by("model", maintain_order=True).agg(
        col.second_reader.count(), col.second_reader.drop_nulls().first().alias("judge"), pl.len()
    )
    return [
        Text(
            f"{model}: the judge {judge} read {count:,} of {attempts:,} responses, "
            "which the rules had left unread."
        )
        for model, count, judge, attempts in by_model.collect().iter_rows()
    ]


def _agreement_block(row: dict[str, Any], *, corrected: bool) -> Callout | Text:
    """Return a sentence about the agreement of the reading with all labels of a part.

    Parameters
    ----------
    row
        The row of QUALITY of all labels together.
    corrected
        Whether the results are corrected by the labels.
    """
    sample = (
        f"{row['model']}, {row['part']}: in a sample of {row['labelled']:,} labelled by {row['annotators']}"
    )
    wrong = f"{row['wrong']:.1%} of the responses ({row['low']:.1%} to {row['high']:.1%})"
    suffix = " The results are corrected." if corrected else ""
    if row["low"] > MUCH_WRONG:
        return Callout(f"{sample}, the reading is contradicted: it gives another label for {wrong}.{suffix}")
    return Text(
        f"{sample}, the reading gives another label for {wrong} and none for {row['unread']:.1%}.{suffix}"
    )
