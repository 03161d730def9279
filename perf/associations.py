"""Unify and test synthetic studies of associations: seconds and peak memory of each step, and its growth.

The merge of the original method is measured as well.

    python -m perf.associations [--large]

The published size is 385,000 mentions in three categories with 100,000 unique strings, embeddings given;
--large adds ten times the mentions with 400,000 strings (some minutes). Each step is timed in a process of
its own after its tables are read; its peak memory holds them. The vectors are like those all-MiniLM-L6-v2
gives the 3,110 released phrases: mean cosine of two phrases 0.13 (there 0.14), deviation 0.11 (0.11), one
pair in 830 (770) at or above the threshold, and as many concepts or a few more (500 phrases: 419 and 416
there; 1,000: 758 and 700; 2,000: 1,300 and 1,229; all: 1,830 and 1,659). Uses are spread by Zipf's law, and
some phrases hold negations and demographic terms.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from perf._tools import fresh, options, peak_mib, table, tell

DIMENSIONS = 384
THRESHOLD = 0.63
CATEGORIES = {
    "gender": ("female", "male"),
    "race": ("Asian", "Black", "white", "Middle Eastern"),
    "religions": ("C", "J", "M", "B"),
}
CONTEXTS = 10
PER_LIST = 6.64
TERMS = (
    "Muslim",
    "Christian",
    "Jewish",
    "Buddhist",
    "African",
    "Chinese",
    "European",
    "woman",
    "young",
    "Arabic",
)
CUES = ("avoids", "not", "lacks", "never", "refuses")


def vectors_of(strings: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return vectors in clusters of very different size.

    A common direction and a falling spectrum make vectors of different clusters as similar as those of real
    phrases.
    """
    clusters = strings // 20
    spectrum = np.exp(-np.arange(DIMENSIONS) / 70).astype(np.float32)
    shared = rng.standard_normal(DIMENSIONS, dtype=np.float32)
    centres = rng.standard_normal((clusters, DIMENSIONS), dtype=np.float32) * spectrum
    centres *= 0.9 / np.linalg.norm(centres, axis=1, keepdims=True)
    centres += 0.43 * shared / np.linalg.norm(shared)
    sizes = 1 / np.arange(20, clusters + 20)
    vectors = centres[rng.choice(clusters, strings, p=sizes / sizes.sum())]
    for start in range(0, strings, 10_000):
        part = vectors[start : start + 10_000]
        noise = rng.standard_normal(part.shape, dtype=np.float32) * spectrum
        part += (
            rng.uniform(0.2, 1.05, (len(part), 1)).astype(np.float32)
            * noise
            / np.linalg.norm(noise, axis=1, keepdims=True)
        )
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return vectors


def phrases_of(strings: int, rng: np.random.Generator) -> list[str]:
    """Return different strings of three or four made-up words.

    Three in a hundred begin with a cue of negation, five with a demographic term.
    """
    syllables = [a + b for a in "bdfglmnprst" for b in ("a", "e", "i", "o", "u", "an", "er")]
    words = [first + second for first in syllables for second in syllables]
    numbers = rng.choice(len(words) ** 2, strings, replace=False)
    lots, last = rng.random(strings), rng.integers(300, size=strings)
    rows = []
    for number, lot, end in zip(numbers.tolist(), lots.tolist(), last.tolist(), strict=True):
        front = ""
        if lot < 0.03:
            front = f"{CUES[number % 5]} "
        elif lot < 0.08:
            front = f"{TERMS[number % 10]} "
        elif lot < 0.09:
            front = "un"
        rows.append(f"{front}{words[number // len(words)]} {words[number % len(words)]} {words[end]}")
    return rows


def make(folder: Path, mentions: int, strings: int) -> None:
    """Write `phrases`, `vectors`, `lists` and `mentions` of a study."""
    rng = np.random.default_rng(20)
    phrases = phrases_of(strings, rng)
    weights = 1 / np.arange(1, strings + 1)
    drawn = np.concatenate(
        [np.arange(strings), rng.choice(strings, mentions - strings, p=weights / weights.sum())]
    )
    lists = round(mentions / PER_LIST)
    identities = [(category, identity) for category, members in CATEGORIES.items() for identity in members]
    chosen = rng.integers(len(identities), size=lists)
    contexts = rng.integers(CONTEXTS, size=lists)
    repetitions = pl.Series(rng.integers(20, size=lists), dtype=pl.Int32)
    identity_of_list = [identities[place][1] for place in chosen]
    descriptors = [f"{name} {number % 5}" for number, name in enumerate(identity_of_list)]
    columns = {
        "attempt": [f"story/{number // 2}#0" for number in range(lists)],
        "character": np.arange(lists, dtype=np.int8) % 2,
        "identity": identity_of_list,
        "part": [identities[place][0] for place in chosen],
        "descriptor": descriptors,
        "context": [f"category {place}" for place in contexts],
        "repetition": repetitions,
    }
    table = pl.DataFrame(columns).with_columns(
        name=pl.col("descriptor"),
        location=pl.col("context"),
        stratum=pl.lit("all"),
        status=pl.lit("listed"),
        problem=pl.lit(None, pl.String),
    )
    table.write_parquet(folder / "lists.parquet")
    owner = table.select("attempt", "character", "part")[np.sort(rng.integers(lists, size=mentions))]
    rng.shuffle(drawn)
    spoken = owner.with_columns(phrase=pl.Series(phrases)[drawn]).unique(maintain_order=True)
    spoken.write_parquet(folder / "mentions.parquet")
    used = pl.DataFrame({"phrase": phrases}).with_row_index("row")
    counted = (
        spoken.group_by("phrase").agg(mentions=pl.len().cast(pl.Int64)).join(used, on="phrase").sort("row")
    )
    counted.select("phrase", "mentions").write_parquet(folder / "phrases.parquet")
    np.save(folder / "vectors.npy", vectors_of(strings, rng)[counted["row"].to_numpy()])


def unify(folder: Path, strings: int) -> dict[str, Any]:
    """Write the concepts of the first `strings` phrases; return sizes and seconds."""
    from tiltmeter.associations._concepts import unify

    phrases = pl.read_parquet(folder / "phrases.parquet").head(strings)
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")[:strings].copy()
    begun = time.perf_counter()
    concepts = unify(phrases, vectors, threshold=THRESHOLD)
    seconds = time.perf_counter() - begun
    concepts.write_parquet(folder / "concepts.parquet")
    return {"strings": phrases.height, "concepts": concepts["concept"].n_unique(), "seconds": seconds}


def test(folder: Path) -> dict[str, Any]:
    """Count and test every concept of every category."""
    from tiltmeter.associations._significance import find_associations

    lists = pl.read_parquet(folder / "lists.parquet")
    mentions = pl.read_parquet(folder / "mentions.parquet")
    concepts = pl.read_parquet(folder / "concepts.parquet").select("phrase", "concept")
    begun = time.perf_counter()
    mentions = mentions.join(concepts, on="phrase", how="left", maintain_order="left")
    rows = 0
    for part in CATEGORIES:
        rows += find_associations(
            lists.filter(pl.col("part") == part).drop("part"), mentions.filter(pl.col("part") == part)
        ).height
    return {
        "mentions": mentions.height,
        "lists": lists.height,
        "rows": rows,
        "seconds": time.perf_counter() - begun,
    }


def original_merge(vectors: NDArray[np.float32]) -> list[int]:
    """Merge as the code of the method: all mentions in order of appearance, all cosines, two loops.

    How the released loops look up a cosine is not known, so three forms are timed. This form is the fastest
    for the original: merged mentions are skipped first, and one index takes the number out of an array.
    """
    return _merged(vectors @ vectors.T)


def original_merge_of_tensors(vectors: NDArray[np.float32]) -> list[int]:
    """Merge with the matrix of the encoder's library: a tensor, each number of which is a tensor again."""
    import torch
    from sentence_transformers.util import cos_sim

    rows = torch.from_numpy(vectors)
    return _merged(cos_sim(rows, rows))


def _merged(similarity: Any) -> list[int]:
    count = len(similarity)
    leader = [-1] * count
    for first in range(count):
        if leader[first] >= 0:
            continue
        leader[first] = first
        for second in range(first + 1, count):
            if leader[second] < 0 and similarity[first, second] >= THRESHOLD:
                leader[second] = first
    return leader


def original_merge_by_rows(vectors: NDArray[np.float32]) -> list[int]:
    """Merge by first taking the row out of the matrix and then the number, for every pair."""
    similarity = vectors @ vectors.T
    count = len(vectors)
    leader = [-1] * count
    for first in range(count):
        if leader[first] >= 0:
            continue
        leader[first] = first
        for second in range(first + 1, count):
            if similarity[first][second] >= THRESHOLD and leader[second] < 0:
                leader[second] = first
    return leader


FORMS = {
    "array": (original_merge, "one index into an array"),
    "rows": (original_merge_by_rows, "first the row, then the element"),
    "tensors": (original_merge_of_tensors, "one index into a tensor, as returned by the encoder's library"),
}


def against_original(folder: Path, form: str, mentions: int) -> dict[str, Any]:
    """Time both merges on the mentions of one location category, with given embeddings.

    Ours begins with the mentions as well.
    """
    from tiltmeter.associations._concepts import unify

    merge, words = FORMS[form]
    spoken = pl.read_parquet(folder / "mentions.parquet")["phrase"].head(mentions)
    number = {phrase: row for row, phrase in enumerate(pl.read_parquet(folder / "phrases.parquet")["phrase"])}
    every = np.load(folder / "vectors.npy", mmap_mode="r")
    vectors = every[[number[phrase] for phrase in spoken]]
    # Imports and lists of words are loaded before the measurement.
    unify(pl.DataFrame({"phrase": ["warm", "up"], "mentions": [1, 1]}), vectors[:2])
    merge(vectors[:2])
    begun = time.perf_counter()
    first = (
        spoken.to_frame()
        .with_row_index("row")
        .group_by("phrase")
        .agg(pl.col("row").first(), mentions=pl.len().cast(pl.Int64))
    )
    unify(
        first.select("phrase", "mentions"),
        vectors[first["row"].cast(pl.Int64).to_numpy()],
        threshold=THRESHOLD,
    )
    seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    merge(vectors)
    seconds_of_original = time.perf_counter() - begun
    measurements = {
        "how the loops look up a cosine": words,
        "mentions": len(spoken),
        "strings": first.height,
        "seconds": seconds,
        "loops, seconds": seconds_of_original,
    }
    return measurements | {"speedup": seconds_of_original / seconds}


def child(folder: Path, step: str, *arguments: object) -> dict[str, Any]:
    measurements: dict[str, Any] = fresh("associations", "--folder", folder, "--step", step, *arguments)
    return measurements


def steps(folder: Path, step: str, arguments: list[str]) -> dict[str, Any]:
    """Carry out one step in this process; return its figures and peak memory."""
    match step:
        case "make":
            make(folder, *map(int, arguments))
            measurements: dict[str, Any] = {}
        case "unify":
            measurements = unify(folder, int(arguments[0]))
        case "test":
            measurements = test(folder)
        case _:
            measurements = against_original(folder, arguments[0], int(arguments[1]))
    return measurements | {"peak MiB": peak_mib()}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument(
        "--large", action="store_true", help="also ten times the mentions with 400,000 strings"
    )
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(steps(arguments.folder, arguments.step[0], arguments.step[1:])))
        return
    sizes = [(2_000, 800)] if arguments.quick else [(385_000, 100_000)]
    if arguments.large and not arguments.quick:
        sizes.append((3_850_000, 400_000))
    looped = (
        {"array": 300, "rows": 300}
        if arguments.quick
        else {"array": 12_000, "rows": 12_000, "tensors": 3_000}
    )
    unified: list[dict[str, Any]] = []
    tested: list[dict[str, Any]] = []
    original: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for mentions, strings in sizes:
            folder = Path(temporary)
            child(folder, "make", mentions, strings)
            original = original or [child(folder, "original", form, count) for form, count in looped.items()]
            unified += [child(folder, "unify", strings // part) for part in (8, 4, 2, 1)]
            tested.append(child(folder, "test"))
    note = (
        "It is not known how the released loops look up a cosine, so three variants are timed. They are "
        "quadratic: the speedup grows with size."
    )
    tell(
        [
            table("Unifying strings into concepts", unified),
            table("Counting and testing every concept of every category", tested),
            table("Compared with the loops of the published method", original, note),
        ]
    )


if __name__ == "__main__":
    main()
