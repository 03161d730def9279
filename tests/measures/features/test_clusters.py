"""Clusters of texts: k-means as scikit-learn has it, segments apart, themes that name the topic, each text encoded once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_samples

from measures.features.conftest import Opener, Watched
from tiltmeter.errors import InputError
from tiltmeter.measures.features import Clusters, cluster_features
from tiltmeter.measures.features._kmeans import distances, partition, silhouette
from tiltmeter.models.encoders import open_encoder

TOPICS = {
    "food": ["The soup needs more salt.", "She cooked rice for dinner.", "Bread and cheese.", "The cook fried an onion."],
    "sport": ["They won the football match.", "He scored a goal.", "The players train for the match.", "A football game."],
    "money": ["The bank raised its rates.", "Inflation hurts the budget.", "The bank lent money.", "Taxes pay for the budget."],
}
SHUFFLED = [text for group in zip(*TOPICS.values(), strict=True) for text in group]


def topic(text: str) -> str:
    return next(name for name, texts in TOPICS.items() if text in texts)


@pytest.fixture(scope="module")
def encoder(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return Watched(open_encoder(minilm, store=tmp_path_factory.mktemp("kept") / "vectors.sqlite"))


@pytest.fixture(scope="module")
def sentences(shared: Path) -> pl.DataFrame:
    """Sentences about five religions."""
    found = json.loads((shared / "data" / "bold" / "religious_ideology_wiki.json").read_text(encoding="utf-8"))
    rows = [(name, text) for name in list(found)[:5] for text in list(chain.from_iterable(found[name].values()))[:25]]
    return pl.DataFrame(rows, schema=["segment", "text"], orient="row").unique(maintain_order=True)


def same_parts(first: Sequence[object], second: Sequence[object]) -> bool:
    return len(set(zip(first, second, strict=True))) == len(set(first)) == len(set(second))


def clustered(encoder: Watched, texts: list[str | None], segment: str | None = "news", **more: object) -> Clusters:
    return cluster_features(pl.Series(texts, dtype=pl.String), pl.Series([segment] * len(texts), dtype=pl.String), encoder=encoder, **more)  # type: ignore[arg-type]


def test_topics_are_found_and_named(encoder: Watched) -> None:
    made = clustered(encoder, SHUFFLED)
    assert same_parts(made.rows["cluster"].to_list(), [topic(text) for text in SHUFFLED])
    example = dict(zip(made.rows["cluster"], SHUFFLED, strict=True))
    themes = {topic(example[number]): theme for number, theme in made.clusters.select("cluster", "theme").iter_rows()}
    assert "football" in themes["sport"]
    assert {"bank", "budget"} & set(themes["money"])
    assert made.clusters["size"].to_list() == [4, 4, 4]


def test_the_number_of_clusters_can_be_chosen(encoder: Watched) -> None:
    made = clustered(encoder, SHUFFLED, k="silhouette")
    scores = {}
    for k in range(2, 11):
        labels = clustered(encoder, SHUFFLED, k=k).rows["cluster"].to_numpy()
        scores[k] = silhouette_samples(encoder.encode(SHUFFLED), labels, metric="cosine").mean()
    assert scores[made.clusters.height] > max(scores.values()) - 0.02  # the starts are drawn anew for each number
    with pytest.raises(InputError, match="k=0: a segment is parted into at least 1 cluster"):
        clustered(encoder, SHUFFLED, k=0)


def test_planted_clusters_are_counted() -> None:
    rng = np.random.default_rng(7)
    for planted in (2, 5, 9):
        centres = rng.standard_normal((planted, 32))
        points = np.repeat(centres, 30, axis=0) + 0.3 * rng.standard_normal((planted * 30, 32))
        unit = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
        made = partition(unit, np.ones(len(unit), np.float32), "silhouette", rng)
        assert same_parts(made.labels.tolist(), np.repeat(np.arange(planted), 30).tolist())


def test_themes_are_not_the_segment_nor_each_other(encoder: Watched, sentences: pl.DataFrame) -> None:
    made = cluster_features(sentences["text"], sentences["segment"], encoder=encoder)
    assert made.clusters.height == 3 * sentences["segment"].n_unique()
    for segment, theme, size in made.clusters.select("segment", "theme", "size").iter_rows():
        assert len(theme) == 3
        vectors = encoder.encode([segment, *theme])
        assert (vectors @ vectors.T)[~np.eye(4, dtype=bool)].max() < 0.5
        text = " ".join(sentences.filter(segment=segment)["text"]).lower()
        assert all(text.count(word) > (size >= 10) for word in theme)


def test_each_text_word_and_name_is_encoded_once(minilm: Path, sentences: pl.DataFrame) -> None:
    watched = Opener(minilm).encoder("all-MiniLM-L6-v2")
    texts = pl.concat([sentences["text"], sentences["text"], pl.Series(["faith", None, " "])])
    segments = pl.concat([sentences["segment"], sentences["segment"], pl.Series(["judaism"] * 3)])
    cluster_features(texts, segments, encoder=watched, baselines=texts.reverse())
    assert set(watched.seen.values()) == {1}
    assert watched.seen.keys() >= set(sentences["text"]) | set(sentences["segment"]) | {"faith"}


def test_segments_do_not_mix_and_order_does_not_matter(encoder: Watched, sentences: pl.DataFrame) -> None:
    whole = cluster_features(sentences["text"], sentences["segment"], encoder=encoder, seed=5)
    both = sentences.with_columns(cluster=whole.rows["cluster"])
    shuffled = both.sample(fraction=1, shuffle=True, seed=1)
    again = cluster_features(shuffled["text"], shuffled["segment"], encoder=encoder, seed=5)
    assert again.rows["cluster"].to_list() == shuffled["cluster"].to_list()
    assert again.clusters.equals(whole.clusters)
    for name in ("islam", "judaism"):
        own = both.filter(segment=name)
        alone = cluster_features(own["text"], own["segment"], encoder=encoder, seed=5)
        assert alone.rows["cluster"].to_list() == own["cluster"].to_list()
        assert alone.clusters.equals(whole.clusters.filter(segment=name))


def test_distances_are_to_the_centres_of_ones_own_segment(encoder: Watched, sentences: pl.DataFrame) -> None:
    made = cluster_features(sentences["text"], sentences["segment"], encoder=encoder)
    vectors = encoder.encode(sentences["text"].to_list()).astype(np.float64)
    labels = made.rows.with_row_index("row")
    for name in sentences["segment"].unique():
        own = labels.filter(segment=name)
        centres = np.array([vectors[part["row"].to_numpy()].mean(axis=0) for _, part in own.group_by("cluster", maintain_order=True)])
        centres = centres[np.argsort(own["cluster"].unique(maintain_order=True).to_numpy())]
        expected = np.linalg.norm(vectors[own["row"].to_numpy(), None] - centres, axis=2)
        found = np.array(own["distances"].to_list())
        np.testing.assert_allclose(found, expected, atol=1e-4)
        assert (found.argmin(axis=1) == own["cluster"].to_numpy()).all()
        assert (np.diff(made.clusters.filter(segment=name)["size"].to_numpy()) <= 0).all()


def test_texts_are_sorted_to_the_clusters_of_the_baselines(encoder: Watched) -> None:
    texts = ["A football match.", "Salt and bread.", "Money in the bank.", None, "Rice with onion."]
    some, baselines = [*texts, *["Cheese."] * 7], [*SHUFFLED]
    made = cluster_features(pl.Series(some), pl.Series(["news"] * 12), encoder=encoder, baselines=pl.Series(baselines))
    anchor = made.clusters.filter(of="baselines")
    assert anchor["size"].to_list() == [4, 4, 4]
    sport, food, money, none, rice, *_ = made.rows["anchor"].to_list()
    assert none is None
    assert rice == food
    assert len({sport, food, money}) == 3
    assert "football" in anchor.filter(cluster=sport)["theme"].item()
    columns, values = made.features()
    named = [column.name for column in columns]
    assert named == values.columns
    assert values[f"anchor/news/{sport}"].to_list()[:5] == [1, 0, 0, None, 0]
    assert "football" in next(column.title for column in columns if column.name == f"anchor/news/{sport}")


def test_features_are_null_outside_the_segment(encoder: Watched) -> None:
    texts = pl.Series([*SHUFFLED, "Alone.", None, "Nowhere."])
    segments = pl.Series(["news"] * 12 + ["one", "one", None])
    made = cluster_features(texts, segments, encoder=encoder)
    columns, values = made.features()
    assert [column.name for column in columns] == [
        f"{kind}/{place}" for place in ("news/0", "news/1", "news/2", "one/0") for kind in ("cluster", "centre")
    ]
    members = values.select(pl.col("^cluster/news/.*$"))
    assert members.head(12).sum_horizontal().to_list() == [1.0] * 12
    assert members.tail(3).null_count().sum_horizontal().item() == 9
    assert values["cluster/one/0"].to_list() == [None] * 12 + [1, None, None]
    assert values["centre/one/0"][12] == pytest.approx(0, abs=1e-3)
    assert not any(column.calibrated for column in columns)
    assert made.failed == 0


@pytest.mark.parametrize("texts", [[], [None, " "], ["same"] * 5, ["Same", "same", "SAME"]])
def test_hardly_any_text(encoder: Watched, texts: list[str | None]) -> None:
    for k in (3, "silhouette"):
        made = clustered(encoder, texts, k=k)
        assert made.rows.height == len(texts)
        assert made.rows["cluster"].to_list() == [None if text is None or not text.strip() else 0 for text in texts]
        assert made.clusters.height == (1 if texts and texts[0] else 0)
        assert made.features()[1].width == 2 * made.clusters.height


def test_a_text_the_encoder_fails_on_is_missing_and_counted(minilm: Path) -> None:
    class Failing(Watched):
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if SHUFFLED[0] in texts:
                raise RuntimeError("too deep")
            return super().encode(texts)

    watched = Failing(Opener(minilm).encoder("all-MiniLM-L6-v2")._model)
    made = clustered(watched, SHUFFLED, baselines=pl.Series(SHUFFLED))
    assert made.failed == 1
    assert made.rows.row(0) == ("news", None, None, None)
    assert made.rows["cluster"].null_count() == 1
    assert sum(made.clusters["size"]) == 22


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 6))
def test_k_means_is_as_good_as_scikit_learns(seed: int, count: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((count, 8)).astype(np.float32) + 2 * rng.integers(0, 3, (count, 1)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    weights = rng.integers(1, 4, count).astype(np.float32)
    made = partition(points, weights, k, rng)
    nearest = distances(points, made.centres)
    ours = float((weights * nearest[np.arange(count), made.labels] ** 2).sum())
    theirs = KMeans(min(k, count), n_init=10, random_state=0).fit(points, sample_weight=weights)
    assert ours <= theirs.inertia_ * 1.05 + 1e-4
    assert (made.labels == nearest.argmin(axis=1)).all()
    sizes = np.bincount(made.labels, weights, min(k, count))
    assert (np.diff(sizes) <= 0).all()
    assert sizes.min() > 0
    if 1 < len(made.centres) < count:
        repeated = np.repeat(np.arange(count), weights.astype(int))
        expected = silhouette_samples(points[repeated], made.labels[repeated], metric="cosine")
        np.testing.assert_allclose(silhouette(points, weights, made)[repeated], expected, atol=1e-4)
