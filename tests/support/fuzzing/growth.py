"""Measure how the work of a reader grows with the length of a text of one repeated pattern."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from support.fuzzing import _answers as answers
from tiltmeter import readers
from tiltmeter.associations._judge_answers import Sentences, normal
from tiltmeter.associations._terms import load_terms, plain_words_of
from tiltmeter.benchmarks._branching import branch, find_descriptors, replace
from tiltmeter.benchmarks._builder import (
    Link,
    PageSet,
    continuations,
    linked_keywords,
    read_files,
    scrape,
    similar_keywords,
    split_sentences,
)  # fmt: skip
from tiltmeter.benchmarks._builder.sources import join_lines, read_document, read_html
from tiltmeter.benchmarks._files import check_benchmark, describe_benchmark
from tiltmeter.benchmarks._tables import BENCHMARK, KEYWORDS, PAGES, SENTENCES
from tiltmeter.benchmarks.counterfactual import cooccurrence_bias, stereotypical_associations
from tiltmeter.designs.wordings import fill, placeholders
from tiltmeter.errors import InputError, TiltmeterError
from tiltmeter.features import bleu, mask_words, rouge_l
from tiltmeter.importing._response_tables import TextColumns, read_responses, read_texts
from tiltmeter.importing._responses import match_prompts
from tiltmeter.models import Message, Sampling, create_model
from tiltmeter.models._json_replies import clean_item
from tiltmeter.readers import _genderbench as genderbench, _grammar as grammar
from tiltmeter.reports._latex import latex_text
from tiltmeter.reports._markdown import fenced
from tiltmeter.study import NotRun

_MARKS = (
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~0aA\n\t\r \xa0"
    "\u2028\u200d\u0301\xe9\u4e2d\u3002\u2014\u201c\u201d"
    "\u2019\u2022\u2026\U0001f600\x0c\x00\u200b\u0130\ufb01\u1f88\u202e\U00010400"
)
_PIECES = (
    "\r\n", " \n", "\n ", "\n\t", "\xa0\n", "\n\xa0", ". ", "! ", "? ", "a.", "a ", "A ", "a,", "a, ", "A. ",
    "Mr. ", "not ", "no ", "yes no ", "He ", "She ", "I can't ", "don't ", "n't ", "a'", "'s ", "a-", "aB",
    "A1", "1.", "1,", "1. ", "(1) ", "\n1. ", "\n- ", "\n* ", "- ", "\n\n", "\n# ", "\n> ", "**", "__",
    "*a ", "**a", "_a ", "`a", "\n```\n", "|a", "\n|a|b", "[a](", "![", "[a]: ", "](", "<a", "<a>", "</a>",
    "<div>", "<b>a", "<p>", "<sup>[", "<!--", "<sup>", "<h1>", "<meta ", "<nav></nav>a",
    "<p><sup>[1]</sup>a", "<a title=x href=y>a", "<table>", "<tr><td>", "<br>", "&amp;", "&#", "http://",
    "https://a.b/c ", "@a ", "a@b.", "(a", "(a) ", "[1]", "[1, ", "[ ", "( ", "(;", "\"a", "\"a\" ",
    "\u201ca ", "{\"a\":", "[\"", "[[", "{\"", "\\\"", "\\n", "<think>", "</think>", "<think>a</think>",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 ", "\U0001f600 ", "e\u0301", "very ", "but ", "kind of ",
    "least ", "good! ", "GOOD ", "never so ", "without doubt ", "Emily ", "Emily is ", "Emily and Jim ",
    "Dr. Emily Jim ", "Mr. A. B. ", "of the ", "the of ", "and ", "who ", "that which ", "because ", "Chad ",
    "Chad's ", "Argentina-", "an Argentina ", "Argentina A ", "he she ", "his ", "doctor ",
    "The doctor said that he was kind. ", "is ", "was said ", "walked ", "said; ", "a; ", "a: ", "Emily: ",
    "\nEmily: a; b", "\nidentity: ", "U.S.A.", "e.g. ", "p. 1 ", "1.000,", "0 1 ", "ab-\n", "a\xad", "sk-",
    "bearer ", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ", "yes", "no", "option a ", "(a) (b) ",
    "answer: ", "**answer** ", "\\boxed{", "1) ", "not not very good, but ",
)  # fmt: skip
PATTERNS = {pattern: pattern for pattern in (*_MARKS, *_PIECES)}
"""By name: what is repeated."""


def text_of(pattern: str, length: int) -> str:
    """Return the pattern repeated up to `length` bytes."""
    return pattern * max(1, length // len(pattern.encode()))


def _document(kind: str) -> Callable[[str], object]:
    return lambda text: read_document(text.encode(), kind)


def _html_tail(text: str) -> object:
    page = (
        f"<html><head><title>{text[:1000]}</title></head><body><p class='x'>Chad {text} land</p><div>{text}"
    )
    return read_document(page.encode(), "html")


def _in_file(name: str, read: Callable[[Path], object], content: bytes) -> object:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return read(path)


def _json_source(text: str) -> object:
    return _in_file(
        "a.json", lambda path: read_files({"Chad": [str(path)]}), json.dumps({"Chad": {"x": [text]}}).encode()
    )


def _written(text: str) -> bytes:
    """Return a PDF of lines of text, sixty on a page."""
    writer = PdfWriter()
    plain = text.encode("latin-1", "replace").translate(None, b"()\\")
    lines = [plain[start : start + 90] for start in range(0, len(plain), 90)]
    named = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in named.items()})
    for start in range(0, len(lines), 60):
        page = writer.add_blank_page(600, 800)
        stream = DecodedStreamObject()
        streams = b"".join(
            b"(%s) Tj 0 -12 Td\n" % line.replace(b"\r", b" ").replace(b"\n", b" ")
            for line in lines[start : start + 60]
        )
        stream.set_data(b"BT /F1 10 Tf 20 780 Td\n" + streams + b"ET")
        page[NameObject("/Contents")] = writer._add_object(stream)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def _table(schema: Mapping[str, Any], *rows: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([dict.fromkeys(schema) | dict(row) for row in rows], schema=dict(schema))


_CHAD = {"domain": "d", "concept": "Chad"}
_PAGES = _table(PAGES, _CHAD | {"source": "s", "source_tag": "t", "title": "x", "depth": 0, "status": "ok"})


def _cut(text: str) -> object:
    row = _CHAD | {"keyword": "Chad", "source": "s", "position": 0}
    table = _table(
        SENTENCES,
        *(row | {"sentence": sentence} for sentence in (text, text + ".", "Chad is a large land in Africa.")),
    )
    return continuations(table), continuations(table, definition="saged")


def _scraped(text: str) -> object:
    keywords = _table(
        KEYWORDS,
        *(_CHAD | {"keyword": keyword} for keyword in ("Chad", "Emily", "a", "of the", "0", "[", "(")),
    )
    return scrape(_PAGES, {"s": f"{text} Chad"}, keywords, split=lambda sentence: [sentence])


def _replaced(text: str) -> object:
    table = {
        "Argentina": "Brazil",
        "Argentina A": "the Netherlands",
        "Chad": "Mali",
        "U.S.A.": "EU",
        "of the": "x",
    }
    return replace(
        pl.Series([text]), table | {"he": "she", "his": "her", "doctor": "nurse", "a": "b", "0": "1"}
    )


def _branched(text: str) -> object:
    row = {"kind": "given", "baseline": text}
    rows = (
        row | {"key": name, "root": name, "concept": name, "keyword": name, "prompt": f"{name} {text}"}
        for name in ("Chad", "Emily")
    )
    prompts = _table(BENCHMARK, *rows)
    by_name = branch(prompts, {"Chad": {"Mali": {"Chad": "Mali", "he": "she"}}}, counterfactual_baseline=True)
    return by_name, check_benchmark(by_name.benchmark), describe_benchmark(by_name.benchmark)


class _Encoder:
    name = "none"

    def encode(self, texts: Any) -> Any:
        return np.full((len(texts), 3), 3**-0.5, dtype=np.float32)


def _keywords(text: str) -> object:
    linked = (Link("Land", text[:200]), Link("Emily", "Emily"), Link("x", text))
    pages = PageSet(_PAGES, {"s": text + " Chad"}, {"s": linked})
    entries: list[object] = [similar_keywords(pages, n=5, encoder=_Encoder()), linked_keywords(pages)]
    with suppress(InputError):  # there is no word in it
        judge: Any = None  # asked for a threshold only
        entries.append(find_descriptors(pl.Series([text]), "Chad", _Encoder(), judge, threshold=0.5))
    return entries


def _counterfactual(text: str) -> object:
    few: dict[str, Any] = {"resamples": 20, "permutations": 20}
    texts = [text, f"{text} she doctor", "he is kind"]
    return (
        stereotypical_associations(texts, **few),
        cooccurrence_bias(texts, **few),
        cooccurrence_bias(texts, window=10, beta=1.0, **few),
    )


def _overlap(text: str) -> object:
    reversed_text = text[::-1]
    return (
        bleu([text, text], [reversed_text, "a b"]),
        rouge_l([text, text], [reversed_text, "a b"]),
        mask_words(pl.Series([text]), ["she", "he said", "a"]),
    )


def _measure(name: str, *more: Any, home: Any = readers) -> Callable[[str], object]:
    return lambda text: getattr(home, name)(pl.Series([text]), *more)


def _judge_sentences(text: str) -> object:
    return Sentences(text, ["Emily", "Jim"]).showing("kind and calm", 0)


def _judged_in(text: str) -> object:
    """Read an answer about a long story."""
    return answers.judged("\n".join(f"Emilx{i}: a; b" for i in range(100)), text)


def _concepts(text: str) -> object:
    """Read an item of a list of a judge as a concept."""
    return clean_item(text), normal(text), plain_words_of(text), load_terms()


def _sim(text: str) -> object:
    return asyncio.run(create_model("sim/mild").complete([Message("user", text)], Sampling(), 0))


_ASKED = pl.DataFrame(
    {"prompt_id": ["p0", "p1"], "prompt": ["Say 0?", "Say 1?"], "repetitions": [1, 1], "part": ["x", "x"]}
)


def _responses(text: str) -> object:
    rows = pl.DataFrame({"prompt": _ASKED["prompt"], "answer": [text.replace("\0", " ")] * 2})
    design = _ASKED.with_columns(
        pl.col("repetitions").cast(pl.Int16), system=pl.lit(None, pl.String), first_sample=0
    )
    return _in_file(
        "a.csv",
        lambda path: match_prompts([(path, read_responses(path))], design, "m"),
        rows.write_csv().encode(),
    )


def _texts(text: str) -> object:
    rows = pl.DataFrame({"text": [text.replace("\0", " "), "b"], "identity": ["woman", "man"]})
    return _in_file(
        "a.csv", partial(read_texts, columns=TextColumns("text", ["identity"])), rows.write_csv().encode()
    )


def _grammar(text: str) -> object:
    return (
        grammar.sentences(text),
        grammar.speech(text),
        grammar.tag([token.text for token in grammar.tokens(text)]),
    )


def _wording(text: str) -> object:
    placeholders(text)
    return pl.DataFrame({"a": [text]}).select(fill("Say {a} and {a}"))


_TWO = [pl.Series([["John"]]), pl.Series([["Anna"]])]
_OPTIONS = pl.Series([["the man", "the woman", "cannot be determined"]])
_PUBLISHED: dict[str, Sequence[Any]] = {
    "letter_choice": (),
    "yes_no": (),
    "character_gender": (),
    "decision": (),
    "first_ranked": _TWO,
    "emotion": (["joy"],),
    "vocabulary": ({"f": {"calm"}}, {"f": {"warm"}}),
}
"""Readers of the published definition and their further arguments."""

READERS: dict[str, Callable[[str], object]] = {
    "source .txt": _document("txt"), "source .md": _document("md"), "source .html": _document("html"),
    "page around": _html_tail, "source .json": _json_source,
    "wiki page": lambda text: read_html(f"<p>{text} <a href='/x' title='Land'>Land</a></p>"),
    "text of a PDF": partial(join_lines, hyphenated=True),
    "source .pdf": lambda text: read_document(_written(text), "pdf"), "sentences": split_sentences,
    "cut after the verb": _cut, "scrape": _scraped, "replace": _replaced, "branch and check": _branched,
    "keywords": _keywords, "counterfactual words": _counterfactual, "BLEU, ROUGE and masks": _overlap,
    "lexicons": answers._features, "words of a story": answers._words, "grammar": _grammar,
    "yes or no": _measure("read_yes_no"), "choice": _measure("read_choice", _OPTIONS),
    "decision": _measure("read_decision"), "emotion": _measure("read_emotion", ["anger", "joy", "fear"]),
    "character": _measure("read_character"), "ranking": _measure("read_first_ranked", *_TWO),
    "vocabulary": _measure("count_vocabulary", {"f": {"calm", "warm"}}, {"f": {"calm", "self-made"}}),
    "refusal": _measure("refused"),
    **{f"published {name}": _measure(name, *more, home=genderbench) for name, more in _PUBLISHED.items()},
    "judge: lists": answers.judged, "judge: long story": _judged_in, "judge: sentences": _judge_sentences,
    "judge: items": _concepts, "judge: exclusivity": answers._exclusive, "judge: JSON": answers._json,
    "judge: questions, keywords, words": answers._replies, "thinking and error texts": answers._thinking,
    "exports": lambda text: (latex_text(text), fenced(text)), "simulated model": _sim,
    "responses .csv": _responses, "texts .csv": _texts, "wordings": _wording,
    "raw .csv": lambda text: _in_file("a.csv", read_responses, b"prompt,answer\nx," + text.encode()),
}  # fmt: skip
"""Functions that take a text from outside, by what they read."""


Reader = Callable[[str], object]
Clock = Callable[[Reader, str], float]
"""The seconds that a reader takes for a text."""


def seconds(reader: Reader, text: str) -> float:
    """Return the processor time for one text; a text that is refused in a sentence counts as read."""
    began = time.process_time()
    with suppress(TiltmeterError, NotRun):
        reader(text)
    return time.process_time() - began


class Slow(NamedTuple):
    """A text whose reading time grows faster than its length."""

    pattern: str
    length: int
    seconds: float
    ratio: float


_LENGTHS = (1_500, 6_000, 24_000)
"""Bytes of the texts: each is four times as long as the one before."""
_QUICK, _QUICK_SHARE = 0.006, 0.4
"""Seconds, and share of the time for a few words, that a text of 6,000 bytes takes longer than these; below,
no other text is read."""
_LINEAR, _MOST = 5.5, 9.0
"""Times as long for four times the text: 4 where time grows in proportion, 16 where with the square, 1 where
it does not depend on it."""
_BRIEF = "Emily is a kind woman."


def quadratic(
    reader: Reader, patterns: dict[str, str] = PATTERNS, time_of: Clock = seconds
) -> Iterator[Slow]:
    """Yield the patterns for which the time of a reader grows faster than the length of the text.

    The times compared are without the time that a text of a few words takes. The shorter texts only tell for
    which patterns the long one, which takes most of the time, must be read: a share of work that grows with
    the square, and makes the reading of the long text more than nine times as slow, makes that of the middle
    one at least 5.5 times as slow. The long text is compared by the least of several measurements of
    processor time, so that what else the machine does changes little.
    """
    reader(_BRIEF)  # whatever is loaded on first use
    constant = _least(reader, _BRIEF, time_of)
    least = max(_QUICK, _QUICK_SHARE * constant)
    for name, pattern in patterns.items():
        short, middle, long = [text_of(pattern, length) for length in _LENGTHS]
        excess = time_of(reader, middle) - constant
        if excess < least or excess <= _LINEAR * (time_of(reader, short) - constant):
            continue
        base = _least(reader, middle, time_of) - constant
        if base < least:
            continue
        more = time_of(reader, long) - constant
        if more > _MOST * base:
            more = min(more, _least(reader, long, time_of) - constant)
        if more > _MOST * base:
            yield Slow(name, len(long), more, more / base)


def _least(reader: Reader, text: str, time_of: Clock) -> float:
    return min(time_of(reader, text) for _ in range(3))
