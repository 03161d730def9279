"""Analyse own texts without a judge: time and peak memory, compared with scikit-learn.

    python -m perf.own_texts [--sizes 1000 5000 100000]

There are ten groups, and 25,000 texts of 500 groups at the end. Texts have eight sentences about a person
("she keeps the brindful ledger"), of 3,000 made-up stems with English endings that are used by Zipf's law;
for each group, 20 words are used more often (500 groups share them). The peer counts words and pairs of words
(CountVectorizer) and computes the log-odds with an informative Dirichlet prior of each group against the
others (Monroe, Colaresi and Quinn 2008): no concepts, no tests for all groups, no intervals. Each measurement
is a process of its own that reads the same CSV file.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from perf._tools import fresh, options, peak_mib, rounded, table, tell

GROUPS = 10
MANY = (25_000, 500)
"""Numbers of texts and groups of the last measurement."""
STEMS = 3_000
FAVOURED = 20
SENTENCES = 8
FRAMES = (
    "She is {0}ful and {1}ous.",
    "She {0}s the {1}ous {2}er.",
    "Her {0}er is {1}ful.",
    "She became a {0}ous {1}er.",
)


def write(path: Path, texts: int, groups: int = GROUPS) -> None:
    """Write a CSV file with the columns text and group."""
    rng = np.random.default_rng(1)
    syllables = [
        a + b
        for a in ("b", "br", "cl", "d", "f", "gr", "k", "l", "m", "n", "p", "st")
        for b in ("a", "e", "i", "o", "u", "an", "ind", "er")
    ]
    stems = rng.permutation([beginning + end + "t" for beginning in syllables for end in syllables])[:STEMS]
    weights = 1 / np.arange(10, STEMS + 10)
    group = rng.integers(groups, size=texts)
    words = rng.choice(STEMS, (texts, SENTENCES, 3), p=weights / weights.sum())
    favoured = group[:, None, None] % GROUPS * FAVOURED + rng.integers(FAVOURED, size=words.shape)
    words = stems[np.where(rng.random(words.shape) < 0.05, favoured + 200, words)]
    frames = rng.integers(len(FRAMES), size=(texts, SENTENCES))
    stories = [
        " ".join(FRAMES[frame].format(*three) for frame, three in zip(*words_of_text, strict=True))
        for words_of_text in zip(frames, words, strict=True)
    ]
    pl.DataFrame({"text": stories, "group": [f"group {number}" for number in group]}).write_csv(path)


def ours(path: Path) -> dict[str, Any]:
    """Return the number of associations, and the seconds of each stage."""
    import tiltmeter as tm

    with tempfile.TemporaryDirectory() as folder:
        run = tm.analyse(
            path, "associations", text="text", group="group", display="none", out=Path(folder) / "run"
        )
        return {"found": run.findings.filter(metric="association").height, "stages": run.about["seconds"]}


def peer(path: Path) -> dict[str, Any]:
    """Return the number of words and pairs of words with a z-score above 1.96."""
    from sklearn.feature_extraction.text import CountVectorizer

    read = pl.read_csv(path)
    counted = CountVectorizer(ngram_range=(1, 2), min_df=5).fit_transform(read["text"])
    prior = np.asarray(counted.sum(axis=0)).ravel() + 0.01
    concepts = 0
    for name in read["group"].unique():
        counts = np.asarray(counted[(read["group"] == name).to_numpy()].sum(axis=0)).ravel()
        counts_of_others = prior - 0.01 - counts
        a, b = counts + prior, counts_of_others + prior
        odds = np.log(a / (counts.sum() + prior.sum() - a)) - np.log(
            b / (counts_of_others.sum() + prior.sum() - b)
        )
        concepts += int((odds / np.sqrt(1 / a + 1 / b) > 1.96).sum())
    return {"found": concepts}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 5_000, 100_000])
    parser.add_argument("--work", choices=("ours", "peer"), help="one measurement, in this process")
    parser.add_argument("--file", type=Path)
    arguments = parser.parse_args()
    if arguments.work:
        begun = time.perf_counter()
        results = (ours if arguments.work == "ours" else peer)(arguments.file)
        measured = {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time()}
        print(json.dumps({**measured, "peak_mib": peak_mib(), **results}))
        return
    sizes = [200, 400] if arguments.quick else arguments.sizes
    cases = [(size, GROUPS) for size in sizes] + [(600, 100) if arguments.quick else MANY]
    rows, stages = [], []
    with tempfile.TemporaryDirectory() as folder:
        for size, groups in cases:
            path = Path(folder) / f"{size} texts of {groups} groups.csv"
            write(path, size, groups)
            ours_measured = fresh("own_texts", "--work", "ours", "--file", path)
            peer_measured = fresh("own_texts", "--work", "peer", "--file", path)
            row = {
                "texts": size,
                "groups": groups,
                "seconds": ours_measured["seconds"],
                "cpu_seconds": ours_measured["cpu_seconds"],
                "peak_mib": ours_measured["peak_mib"],
                "associations": ours_measured["found"],
            }
            row |= {
                "peer_cpu_seconds": peer_measured["cpu_seconds"],
                "peer_mib": peer_measured["peak_mib"],
                "times_peer": ours_measured["cpu_seconds"] / peer_measured["cpu_seconds"],
            }
            rows.append(rounded(row))
            stages.append(rounded({"texts": size, "groups": groups, **ours_measured["stages"]}))
    tell(
        [
            table(
                "Own texts",
                rows,
                "The peer is CountVectorizer (words and pairs) with log-odds, without tests. Processor time"
                " is that of the whole process, with the loading of packages; times_peer compares it.",
            ),
            table(
                "Seconds by stage",
                stages,
                "Extraction finds the words of each sentence and their forms. The findings include 999"
                " shuffles of the groups, labels, examples, themes and tone.",
            ),
        ]
    )


if __name__ == "__main__":
    main()
