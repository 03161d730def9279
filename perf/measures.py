"""Reading 100,000 answers by rules, compared with GenderBench's own evaluators on the same answers.

The labels are checked to be the same. Both follow the rules of GenderBench 1.1.0
(`tiltmeter.readers._genderbench`); our own rules, which read more, are timed as well. The answers are made of
random words with what each rule looks for sprinkled in; all are distinct, so that nothing is read once for
many.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from perf._tools import Peers, options, table, tell
from tiltmeter import readers
from tiltmeter.readers import _genderbench as genderbench

ANSWERS: Final = 100_000
WORDS: Final = 30
EMOTIONS: Final = ("anger", "fear", "joy", "guilt", "sadness", "shame", "disgust")
MEN: Final = ("James Miller", "Robert Stone", "David Hill", "Mark Young")
WOMEN: Final = ("Mary Baker", "Linda Reed", "Susan Cole", "Karen Wood")
OPTIONS: Final = ("men", "women", "neither")
SAID: Final[dict[str, Sequence[str]]] = {
    "letter_choice": ("(a)", "(b)", "(C)", "(a) or (b)"),
    "yes_no": ("yes", "No", "YES", "no", "yes, but no"),
    "character_gender": ("she said", "he and his", "her", "him and her", "He"),
    "decision": ("we regret to inform you", "you have been selected", "We Regret To Inform You", "hello"),
    "first_ranked": (*MEN, *WOMEN),
    "emotion": (*EMOTIONS, "Joy and fear"),
}
ORIGINAL: Final[dict[str, Callable[[pl.Series], pl.Series]]] = {
    "letter_choice": genderbench.letter_choice,
    "yes_no": genderbench.yes_no,
    "character_gender": genderbench.character_gender,
    "decision": genderbench.decision,
    "first_ranked": lambda answer: genderbench.first_ranked(
        answer, _names(answer, MEN), _names(answer, WOMEN)
    ),
    "emotion": lambda answer: genderbench.emotion(answer, EMOTIONS),
}
OWN: Final[dict[str, Callable[[pl.Series], pl.DataFrame]]] = {
    "letter_choice": lambda answer: readers.read_choice(answer, _names(answer, OPTIONS)),
    "yes_no": readers.read_yes_no,
    "character_gender": readers.read_character,
    "decision": readers.read_decision,
    "first_ranked": lambda answer: readers.read_first_ranked(
        answer, _names(answer, MEN), _names(answer, WOMEN)
    ),
    "emotion": lambda answer: readers.read_emotion(answer, EMOTIONS),
}


def _names(answer: pl.Series, names: Sequence[str]) -> pl.Series:
    """Return the same list for every answer, as in a run. It is built before the measurement."""
    return _lists(tuple(names), len(answer))


@cache
def _lists(names: tuple[str, ...], count: int) -> pl.Series:
    return pl.Series([list(names)] * count)


def answers_of(kind: str, count: int) -> list[str]:
    """Return distinct sentences; nine of ten contain what the rule looks for."""
    rng = np.random.default_rng(7)
    words = np.array(
        ["".join(rng.choice(list("bdfglmnprstaeiou"), size)) for size in rng.integers(4, 9, 4_000)]
    )
    drawn = words[rng.integers(len(words), size=(count, WORDS))]
    choices = rng.integers(len(SAID[kind]), size=count)
    places, lots = rng.integers(WORDS, size=count), rng.random(count)
    rows = []
    for row, choice, place, lot in zip(
        drawn.tolist(), choices.tolist(), places.tolist(), lots.tolist(), strict=True
    ):
        if lot < 0.9:
            row[place] = SAID[kind][choice]
        rows.append(" ".join(row))
    return rows


def seconds(work: Callable[[pl.Series], object], answers: pl.Series) -> float:
    for names in (MEN, WOMEN, OPTIONS):
        _names(answers, names)
    begun = time.perf_counter()
    work(answers)
    return time.perf_counter() - begun


def theirs(peers: Peers, answers: dict[str, list[str]]) -> dict[str, Any] | None:
    """Return the seconds of GenderBench's evaluators, after checking that the labels equal ours."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.json"
        metadata = {"male_names": MEN, "female_names": WOMEN}
        path.write_text(
            json.dumps({kind: {"answers": texts, "metadata": metadata} for kind, texts in answers.items()}),
            encoding="utf-8",
        )
        outcome = peers.ask("genderbench", "on_genderbench.py", {"file": str(path)})
        if outcome is None:
            return None
        for kind, labels in json.loads(path.read_text(encoding="utf-8")).items():
            our_labels = ORIGINAL[kind](pl.Series(answers[kind]))
            if our_labels.to_list() != labels:
                row = next(
                    row for row, pair in enumerate(zip(our_labels, labels, strict=True)) if pair[0] != pair[1]
                )
                raise ValueError(
                    f"{kind}: {our_labels[row]!r} here, {labels[row]!r} by GenderBench: "
                    f"{answers[kind][row]!r}"
                )
    return outcome.reported


def main() -> None:
    arguments = options(__doc__).parse_args()
    count = 2_000 if arguments.quick else ANSWERS
    peers, answers = Peers(arguments.peer), {kind: answers_of(kind, count) for kind in SAID}
    labels_of_peer = theirs(peers, answers)
    rows = []
    for kind, texts in answers.items():
        column = pl.Series(texts)
        warm = column.head(100)
        ORIGINAL[kind](warm), OWN[kind](warm)
        original, default = seconds(ORIGINAL[kind], column), seconds(OWN[kind], column)
        row = {"measure": kind, "seconds": original, "default rules, seconds": default}
        if labels_of_peer is not None:
            row |= {
                "genderbench, seconds": labels_of_peer["seconds"][kind],
                "speedup": labels_of_peer["seconds"][kind] / original,
            }
        rows.append(row)
    note = f"{count:,} responses of {WORDS} words. All labels are equal."
    if labels_of_peer is not None and labels_of_peer["without_splitting"]:
        note += (
            " The data of NLTK's sentence splitter were not available here, so GenderBench's tokeniser "
            "skipped that step."
        )
    tell([table("Seconds to parse the responses", rows, note)], peers=peers)


if __name__ == "__main__":
    main()
