"""The gain by a second Ray worker in CPU-bound work: a local model and an encoder, on one and two workers.

Needs two cores or more. Workers are started and their models loaded before the measurement. For comparison,
the same work is measured in one and in two independent processes with one thread each.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perf._tools import ROOT, options, table, target, tell
from tiltmeter.engine import Engine, Journal, Request, open_engine, open_journal
from tiltmeter.models import Message, Sampling, create_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Barrier

STORYTELLER: Final = ROOT / "tests" / "fixtures" / "storyteller"
LEAST_GAIN: Final = 1.6
ROUNDS: Final = 5
KINDS: Final = {"stories": "responses of a small local model", "vectors": "MiniLM vectors"}
fresh = count()
_together: Barrier
"""In an independent process: the barrier at which it waits for the others."""


def fresh_requests(number: int) -> list[Request]:
    return [
        Request((Message("user", f"Tell me a story of a person, number {next(fresh)}."),))
        for _ in range(number)
    ]


def answers(engine: Engine, journal: Journal, number: int) -> float:
    """Return the answers per second of the storyteller."""
    requests = fresh_requests(number)
    begun = time.perf_counter()
    tally = engine.generate(
        create_model(f"hf/{STORYTELLER}"),
        requests,
        Sampling(max_tokens=160, temperature=0.9),
        journal=journal,
    )
    assert tally.answered == number
    return number / (time.perf_counter() - begun)


def vectors(engine: Engine, number: int) -> float:
    """Return the texts encoded per second."""
    from tiltmeter.datasets import Library, encoder_folder

    texts = [
        f"Text number {next(fresh)} is about a person who went out to buy bread and came home late."
        for _ in range(number)
    ]
    encoder = engine.encoder(encoder_folder(Library.default()), store=None)
    begun = time.perf_counter()
    assert len(encoder.encode(texts)) == number
    return number / (time.perf_counter() - begun)


def measured(workers: int, stories: int, texts: int) -> dict[str, float]:
    chosen = ("ray", {"workers": str(workers)}) if workers else ("local", {})
    with (
        tempfile.TemporaryDirectory() as place,
        open_engine(*chosen) as engine,
        open_journal(Path(place) / "journal.sqlite") as journal,
    ):
        # More requests than one worker accepts, so that all of them load the model.
        answers(engine, journal, 128 * max(workers, 1))
        rates = {"stories": answers(engine, journal, stories)}
        vectors(engine, 512 * max(workers, 1))
        return rates | {"vectors": vectors(engine, texts)}


def alone(processes: int, stories: int, texts: int) -> dict[str, float]:
    """Return the sum of the rates of independent processes that start together."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _agree, (context.Barrier(processes),)) as crew:
        futures = [crew.submit(_alone, stories // processes, texts // processes) for _ in range(processes)]
        rates = [future.result() for future in futures]
    return {kind: sum(each[kind] for each in rates) for kind in KINDS}


def _agree(together: Barrier) -> None:
    global _together
    _together = together


def _alone(stories: int, texts: int) -> dict[str, float]:
    import torch

    torch.set_num_threads(1)  # as a worker of one core has it
    with (
        tempfile.TemporaryDirectory() as place,
        open_engine() as engine,
        open_journal(Path(place) / "journal.sqlite") as journal,
    ):
        answers(engine, journal, 64)
        _together.wait()
        rates = {"stories": answers(engine, journal, stories)}
        vectors(engine, 256)
        _together.wait()
        return rates | {"vectors": vectors(engine, texts)}


def gained(rates: dict[str, dict[str, float]], first: str, two: str) -> str:
    return " and ".join(f"{rates[two][kind] / rates[first][kind]:.2f}" for kind in KINDS)


def main() -> None:
    arguments = options(__doc__).parse_args()
    stories, texts, rounds = (32, 256, 1) if arguments.quick else (4800, 4800, ROUNDS)
    ways: dict[str, Callable[[], dict[str, float]]] = {
        "one worker": lambda: measured(1, stories, texts),
        "two workers": lambda: measured(2, stories, texts),
        # Less work suffices: these have no work to distribute, whose cost a longer run would reduce.
        "one process": lambda: alone(1, stories // 4, texts // 4),
        "two processes": lambda: alone(2, stories // 2, texts // 2),
    }
    rates: dict[str, list[dict[str, float]]] = {name: [] for name in ways} | {
        "local engine": [measured(0, stories, texts)]
    }
    for number in range(rounds):
        # In alternating order, so that a machine that gets slower or faster favours none.
        for name in list(ways)[:: 1 if number % 2 else -1]:
            rates[name].append(ways[name]())
    best = {name: {kind: max(rate[kind] for rate in each) for kind in KINDS} for name, each in rates.items()}
    middle = {
        name: {kind: statistics.median(rate[kind] for rate in each) for kind in KINDS}
        for name, each in rates.items()
    }
    rows = [
        {"engine": name}
        | {f"{words}, per second": middle[name][kind] for kind, words in KINDS.items()}
        | {f"{kind}, best": best[name][kind] for kind in KINDS}
        for name in rates
    ]
    targets = [
        target(
            f"{words}: two workers relative to one",
            middle["two workers"][kind] / middle["one worker"][kind],
            LEAST_GAIN,
        )
        for kind, words in KINDS.items()
    ]
    process = ("one process", "two processes")
    note = (
        f"Medians of {rounds} rounds, and the best round: other guests of the host can only slow it down. "
        f"In the best rounds, a second worker multiplies throughput by "
        f"{gained(best, 'one worker', 'two workers')} (responses and vectors). A second process that shares "
        f"nothing with the first multiplies it by {gained(middle, *process)} in the median and "
        f"{gained(best, *process)} in the best rounds. Workers and processes have one thread each. The "
        "local engine uses all available cores for the batches of one process."
    )
    tell([table("Throughput per second", rows, note)], targets=targets)


if __name__ == "__main__":
    main()
