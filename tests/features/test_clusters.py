"""Clusters of texts: k-means, the number of clusters, themes that name the topic, one encoding per text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from sklearn.metrics import silhouette_samples

from features.conftest import Opener, Watched
from tiltmeter.features import Clusters, cluster_texts
from tiltmeter.features._clusters import partition, silhouette
from tiltmeter.models._text_models import SentenceEncoder

pytestmark = pytest.mark.verify

TOPICS = {
    "food": [
        "The soup needs more salt.",
        "She cooked rice for dinner.",
        "Bread and cheese.",
        "The cook fried an onion.",
    ],
    "sport": [
        "They won the football match.",
        "He scored a goal.",
        "The players train for the match.",
        "A football game.",
    ],
    "money": [
        "The bank raised its rates.",
        "Inflation hurts the budget.",
        "The bank lent money.",
        "Taxes pay for the budget.",
    ],
}
SHUFFLED = [text for group in zip(*TOPICS.values(), strict=True) for text in group]


def topic(text: str) -> str:
    return next(name for name, texts in TOPICS.items() if text in texts)


@pytest.fixture(scope="module")
def encoder(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return Watched(SentenceEncoder(minilm, store=tmp_path_factory.mktemp("kept") / "vectors.sqlite"))


@pytest.fixture(scope="module")
def sentences(shared: Path) -> pl.DataFrame:
    """Sentences about five religions."""
    document = json.loads(
        (shared / "data" / "bold" / "religious_ideology_wiki.json").read_text(encoding="utf-8")
    )
    rows = [
        (name, text)
        for name in list(document)[:5]
        for text in list(chain.from_iterable(document[name].values()))[:25]
    ]
    return pl.DataFrame(rows, schema=["segment", "text"], orient="row").unique(maintain_order=True)


def same_parts(first: Sequence[object], second: Sequence[object]) -> bool:
    return len(set(zip(first, second, strict=True))) == len(set(first)) == len(set(second))


def clustered(
    encoder: Watched, texts: Sequence[str | None] | pl.Series, about: str = "news", **more: object
) -> Clusters:
    return cluster_texts(
        pl.Series(texts, dtype=pl.String),
        about,
        encoder=encoder,
        **{"k": 3, "seed": 0} | more,  # type: ignore[arg-type]
    )


def test_topics_are_found_and_named(encoder: Watched) -> None:
    clustering = clustered(encoder, SHUFFLED)
    assert same_parts(clustering.cluster.to_list(), [topic(text) for text in SHUFFLED])
    example = dict(zip(clustering.cluster, SHUFFLED, strict=True))
    themes = {
        topic(example[number]): theme
        for number, theme in clustering.themes.select("cluster", "theme").iter_rows()
    }
    assert "football" in themes["sport"]
    assert {"bank", "budget"} & set(themes["money"])
    assert clustering.themes["size"].to_list() == [4, 4, 4]


def test_the_number_of_clusters_is_chosen_by_the_silhouette(encoder: Watched) -> None:
    clustering = clustered(encoder, SHUFFLED, k="silhouette")
    scores = {}
    for k in range(2, 11):
        labels = clustered(encoder, SHUFFLED, k=k).cluster.to_numpy()
        scores[k] = silhouette_samples(encoder.encode(SHUFFLED), labels, metric="cosine").mean()
    # The initial centres are drawn again for each number of clusters.
    assert scores[clustering.themes.height] > max(scores.values()) - 0.02


def test_the_silhouette_finds_the_number_of_planted_clusters() -> None:
    rng = np.random.default_rng(7)
    for planted in (2, 5, 9):
        centres = rng.standard_normal((planted, 32))
        points = np.repeat(centres, 30, axis=0) + 0.3 * rng.standard_normal((planted * 30, 32))
        unit = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
        labels, _ = partition(unit, np.ones(len(unit), np.float32), "silhouette", rng)
        assert same_parts(labels.tolist(), np.repeat(np.arange(planted), 30).tolist())


def test_themes_differ_from_the_subject_and_from_each_other(
    encoder: Watched, sentences: pl.DataFrame
) -> None:
    for (subject,), part in sentences.group_by("segment"):
        clustering = clustered(encoder, part["text"], str(subject))
        assert clustering.themes["cluster"].to_list() == [0, 1, 2]
        assert clustering.themes["size"].is_sorted(descending=True)
        text = " ".join(part["text"]).lower()
        for theme, size in clustering.themes.select("theme", "size").iter_rows():
            assert len(theme) == 3
            vectors = encoder.encode([str(subject), *theme])
            assert (vectors @ vectors.T)[~np.eye(4, dtype=bool)].max() < 0.5
            assert all(text.count(word) > (size >= 10) for word in theme)


def test_each_text_is_encoded_once(minilm: Path, sentences: pl.DataFrame) -> None:
    watched = Opener(minilm).encoder("all-MiniLM-L6-v2")
    texts = pl.concat([sentences["text"], sentences["text"], pl.Series([None, " "])])
    clustered(watched, texts, "religion")
    assert {watched.seen[text] for text in sentences["text"]} == {1}


def test_clusters_do_not_depend_on_the_order_of_texts(encoder: Watched, sentences: pl.DataFrame) -> None:
    clustering = clustered(encoder, sentences["text"], "religion", seed=5)
    shuffled = sentences.with_columns(clustering.cluster).sample(fraction=1, shuffle=True, seed=1)
    again = clustered(encoder, shuffled["text"], "religion", seed=5)
    assert again.cluster.to_list() == shuffled["cluster"].to_list()
    assert again.themes.equals(clustering.themes)


@pytest.mark.parametrize("texts", [[], [None, " "], ["same"] * 5, ["Same", "same", "SAME"]])
def test_at_most_one_distinct_text_gives_at_most_one_cluster(
    encoder: Watched, texts: list[str | None]
) -> None:
    expected = [None if text is None or not text.strip() else 0 for text in texts]
    for k in (3, "silhouette"):
        clustering = clustered(encoder, texts, k=k)
        assert clustering.cluster.to_list() == expected
        assert clustering.themes.height == (1 if texts and texts[0] else 0)


def test_a_text_on_which_the_encoder_fails_has_no_cluster(minilm: Path) -> None:
    class Failing(Watched):
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if SHUFFLED[0] in texts:
                raise RuntimeError("too deep")
            return super().encode(texts)

    clustering = clustered(Failing(SentenceEncoder(minilm, store=None)), [*SHUFFLED, *SHUFFLED])
    assert clustering.cluster[0] is None
    assert (clustering.cluster.null_count(), sum(clustering.themes["size"])) == (2, 22)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 6))
def test_points_are_divided_by_their_nearest_centre(seed: int, count: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((count, 8)).astype(np.float32)
    points = noise + 2 * rng.integers(0, 3, (count, 1)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    weights = rng.integers(1, 4, count).astype(np.float32)
    labels, centres = partition(points, weights, k, np.random.default_rng(seed))
    assert (labels == np.linalg.norm(points[:, None] - centres, axis=2).argmin(axis=1)).all()
    again = partition(points, weights, k, np.random.default_rng(seed))
    assert np.array_equal(again[0], labels)
    assert np.array_equal(again[1], centres)
    sizes = np.bincount(labels, weights, min(k, count))
    assert sorted(sizes, reverse=True) == sizes.tolist()
    assert sizes[-1] > 0
    if 1 < len(centres) < count:
        repeated = np.repeat(np.arange(count), weights.astype(int))
        expected = silhouette_samples(points[repeated], labels[repeated], metric="cosine")
        widths = silhouette(points, weights, labels, centres)[repeated]
        np.testing.assert_allclose(widths, expected, atol=1e-4)
