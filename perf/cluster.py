"""What a second Ray worker gives where work is CPU-bound: a local model that answers, and an encoder, on one and on two workers.

Needs two cores or more. Workers are started and their models loaded before anything is timed.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Final

from perf._tools import ROOT, options, table, target, tell
from tiltmeter.engine import Engine, Journal, Request, open_engine, open_journal
from tiltmeter.models import Message, Sampling, create_model

STORYTELLER: Final = ROOT / "tests" / "fixtures" / "storyteller"
LEAST_GAIN: Final = 1.7
ROUNDS: Final = 3
fresh = count()


def asked(number: int) -> list[Request]:
    return [Request((Message("user", f"Tell me a story of a person, number {next(fresh)}."),)) for _ in range(number)]


def answers(engine: Engine, journal: Journal, number: int) -> float:
    """Answers a second of the storyteller."""
    requests = asked(number)
    begun = time.perf_counter()
    tally = engine.generate(create_model(f"hf/{STORYTELLER}"), requests, Sampling(max_tokens=160, temperature=0.9), journal=journal)
    assert tally.answered == number
    return number / (time.perf_counter() - begun)


def vectors(engine: Engine, number: int) -> float:
    """Texts encoded a second."""
    from tiltmeter.datasets import Library
    from tiltmeter.datasets.encoders import encoder_folder

    texts = [f"Text number {next(fresh)} tells of somebody who went out to buy bread and came home late." for _ in range(number)]
    encoder = engine.encoder(encoder_folder(Library.default()), store=None)
    begun = time.perf_counter()
    assert len(encoder.encode(texts)) == number
    return number / (time.perf_counter() - begun)


def measured(name: str, workers: int, stories: int, texts: int, folder: Path) -> dict[str, float]:
    chosen = ("ray", {"workers": str(workers)}) if workers else ("local", {})
    with open_engine(*chosen) as engine, open_journal(folder / f"{name}.sqlite") as journal:
        answers(engine, journal, 128 * max(workers, 1))  # more than one worker can have: all of them load the model
        told = {"stories": answers(engine, journal, stories)}
        vectors(engine, 512 * max(workers, 1))
        return told | {"vectors": vectors(engine, texts)}


def main() -> None:
    given = options(__doc__).parse_args()
    stories, texts, rounds = (32, 256, 1) if given.quick else (3000, 6000, ROUNDS)
    rates: dict[str, list[dict[str, float]]] = {"local engine": [], "one worker": [], "two workers": []}
    with tempfile.TemporaryDirectory() as place:
        for number in range(rounds):
            for workers, name in enumerate(rates):
                if workers or not number:  # the local engine is shown beside, and compared with nothing
                    rates[name].append(measured(f"{workers}-{number}", workers, stories, texts, Path(place)))
    kinds = {"stories": "answers of a small local model", "vectors": "vectors of MiniLM"}
    medians = {name: {kind: statistics.median(one[kind] for one in each) for kind in kinds} for name, each in rates.items()}
    rows = [{"engine": name, **{f"{words}, a second": medians[name][kind] for kind, words in kinds.items()}} for name in rates]
    targets = [
        target(f"{words}: two workers beside one", medians["two workers"][kind] / medians["one worker"][kind], LEAST_GAIN)
        for kind, words in kinds.items()
    ]
    note = "A worker has one core. The local engine uses every core it is given, for batches of one process."
    tell([table("A second", rows, note)], targets=targets)


if __name__ == "__main__":
    main()
