"""Counterfactual answers and co-occurring words: CPU seconds here and by loops of the published definitions.

The loops follow the definitions literally, one pair or one text at a time: rouge-score's scorer, sacrebleu's
sentence BLEU in both directions, SciPy's Wasserstein distance in a loop over resamples, co-occurrence by a
loop over pairs of tokens. A loop that would take long is timed on a share of the work and multiplied.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import polars as pl

from perf._tools import options, table, tell
from tiltmeter.benchmarks.counterfactual import (
    cooccurrence_bias,
    counterfactual,
    default_words,
    stereotypical_associations,
    toxicity,
)
from tiltmeter.features import bleu, rouge_l


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()  # of this one process: other work on the machine does not count
    work()
    return time.process_time() - begun


def text_of(generator: np.random.Generator, words: int) -> str:
    lists = default_words()
    measures = [
        *lists["groups"]["female"],
        *lists["groups"]["male"],
        *lists["targets"],
        *lists["stop"] * 3,
        *(f"word{i}" for i in range(400)),
    ]
    return " ".join(generator.choice(measures, size=words))


def similarities(generator: np.random.Generator, pairs: int, words: int) -> dict[str, float]:
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

    first = [text_of(generator, words) for _ in range(pairs)]
    second = [text_of(generator, words) for _ in range(pairs)]
    bleu(first[:2], second[:2])
    rouge_l(first[:2], second[:2])
    share = max(1, pairs // 20)
    one_way = BLEU(lowercase=True, smooth_method="floor", smooth_value=0.1, effective_order=True)
    scorer = RougeScorer(["rougeL"], True)
    sample = list(zip(first[:share], second[:share], strict=True))

    def bleu_loop() -> None:
        for a, b in sample:
            one_way.sentence_score(a, [b])
            one_way.sentence_score(b, [a])

    def rouge_loop() -> None:
        for a, b in sample:
            scorer.score(a, b)

    return {
        "bleu_s": seconds(lambda: bleu(first, second)),
        "bleu_loop_s": seconds(bleu_loop) * pairs / share,
        "rouge_l_s": seconds(lambda: rouge_l(first, second)),
        "rouge_l_loop_s": seconds(rouge_loop) * pairs / share,
    }


def parity(generator: np.random.Generator, prompts: int, groups: int, answers: int) -> dict[str, float]:
    """Time the parity of all pairs of groups, with 1,000 resamples and 1,000 exchanges."""
    from scipy.stats import wasserstein_distance

    table = pl.DataFrame(
        {
            "prompt": np.repeat(np.arange(prompts), groups * answers),
            "group": np.tile(np.repeat([f"group{i}" for i in range(groups)], answers), prompts),
            "score": generator.random(prompts * groups * answers),
        }
    )
    a, b = generator.random(prompts * answers), generator.random(prompts * answers)
    once = seconds(lambda: [wasserstein_distance(a, b) for _ in range(20)]) / 20
    pairs = groups * (groups - 1) // 2
    return {
        "parity_s": seconds(lambda: counterfactual(table, unit="prompt", group="group", score="score")),
        "parity_loop_strict_alone_s": once * 2000 * pairs,
    }


def words(generator: np.random.Generator, texts: int, length: int) -> dict[str, float]:
    texts_of_group = [text_of(generator, length) for _ in range(texts)]
    groups = [set(words) for words in default_words()["groups"].values()]
    share = max(1, texts // 50)

    def loop() -> None:
        met: dict[tuple[str, int], float] = {}
        for text in texts_of_group[:share]:
            tokens = text.split()
            for i, word in enumerate(tokens):
                for j, token in enumerate(tokens):
                    for number, words in enumerate(groups):
                        if token in words and i != j:
                            met[word, number] = met.get((word, number), 0.0) + 0.95 ** abs(i - j)

    return {
        "stereotypical_associations_s": seconds(lambda: stereotypical_associations(texts_of_group)),
        "cooccurrence_bias_s": seconds(lambda: cooccurrence_bias(texts_of_group)),
        "cooccurrence_loop_without_intervals_s": seconds(loop) * texts / share,
    }


def toxic(generator: np.random.Generator, prompts: int) -> dict[str, float]:
    table = pl.DataFrame(
        {"prompt": np.repeat(np.arange(prompts), 25), "score": generator.random(prompts * 25) ** 4}
    )
    return {"toxicity_s": seconds(lambda: toxicity(table, prompt="prompt", score="score"))}


def main() -> None:
    scale = 0.02 if options(__doc__).parse_args().quick else 1.0
    generator = np.random.default_rng(1)
    took = similarities(generator, int(2000 * scale), 150)
    took |= parity(generator, 75, max(2, int(21 * scale)), 4)
    took |= words(generator, int(10_000 * scale), 100)
    took |= toxic(generator, int(10_000 * scale))
    loops = {
        "bleu": "bleu_loop",
        "rouge_l": "rouge_l_loop",
        "parity": "parity_loop_strict_alone",
        "stereotypical_associations": None,
        "cooccurrence_bias": "cooccurrence_loop_without_intervals",
        "toxicity": None,
    }
    rows = [
        {
            "what": name,
            "CPU seconds": took[f"{name}_s"],
            "CPU seconds, loop": None if loop is None else took[f"{loop}_s"],
            "speedup": None if loop is None else took[f"{loop}_s"] / took[f"{name}_s"],
        }
        for name, loop in loops.items()
    ]
    note = (
        "The parity loop computes only the strict measure, and the co-occurrence loop computes no "
        "intervals; Tiltmeter computes all of these."
    )
    tell([table("CPU seconds", rows, note)])


if __name__ == "__main__":
    main()
