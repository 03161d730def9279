"""Unifying phrases: labels, guards with every method, and results that do not depend on the order of rows."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from tiltmeter.associations._concepts import unify
from tiltmeter.associations._expressions import unify_words
from tiltmeter.errors import InputError

METHODS = ("leader", "components", "average")

Vectors = NDArray[np.float32]


class Meaning(NamedTuple):
    """The meaning of an invented phrase, which needs no guard."""

    negated: bool
    about: str
    quality: str

    @property
    def words(self) -> str:
        return f"{'avoids ' if self.negated else ''}{self.about} {self.quality}".strip()

    def apart(self, phrase: Meaning) -> bool:
        opposed = {self.quality, phrase.quality} in ({"patient", "impatient"}, {"caring", "uncaring"})
        return self.negated != phrase.negated or self.about != phrase.about or opposed


MEANINGS = [
    Meaning(*parts)
    for parts in product(
        (False, True), ("", "Muslim", "Christian"), ("patient", "impatient", "caring", "uncaring", "tall")
    )
]


def unit(vectors: NDArray[np.float64]) -> Vectors:
    normalised: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return normalised


def table(phrases: list[str], mentions: list[int] | None = None) -> pl.DataFrame:
    counts = mentions or list(range(len(phrases), 0, -1))
    return pl.DataFrame(
        {"phrase": phrases, "mentions": counts}, schema={"phrase": pl.String, "mentions": pl.Int64}
    )


def concepts(table: pl.DataFrame) -> dict[str, str]:
    return dict(table.select("phrase", "concept").iter_rows())


@st.composite
def studies(draw: st.DrawFn) -> tuple[list[Meaning], pl.DataFrame, Vectors]:
    meanings = draw(st.lists(st.sampled_from(MEANINGS), min_size=1, max_size=40))
    numerals = [
        "".join("zvwxy"[int(digit)] for digit in np.base_repr(number, 5)) for number in range(len(meanings))
    ]
    mentions = draw(st.lists(st.integers(1, 4), min_size=len(meanings), max_size=len(meanings)))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    vectors = unit(rng.standard_normal((len(meanings), draw(st.sampled_from([2, 3, 8])))) + 0.5)
    return (
        meanings,
        table([f"{meaning.words} {end}" for meaning, end in zip(meanings, numerals, strict=True)], mentions),
        vectors,
    )


@given(studies(), st.sampled_from(METHODS), st.sampled_from([0.3, 0.63, 0.9]))
@settings(max_examples=15)
def test_guards_separate_phrases_in_the_final_clusters(
    study: tuple[list[Meaning], pl.DataFrame, Vectors], method: str, threshold: float
) -> None:
    meanings, phrases, vectors = study
    unified = unify(phrases, vectors, threshold=threshold, method=method)
    assert unified.select("phrase", "mentions").equals(phrases)
    for (first_meaning, first), (second_meaning, second) in combinations(
        zip(meanings, unified["concept"], strict=True), 2
    ):
        assert first != second or not first_meaning.apart(second_meaning), (first_meaning, second_meaning)
    leaders = unified.sort("mentions", "phrase", descending=[True, False]).unique(
        "concept", keep="first", maintain_order=True
    )
    assert (leaders["phrase"] == leaders["concept"]).all()
    assert (leaders["similarity"] == 1).all()
    if method == "leader":
        assert unified.filter(pl.col("similarity") < threshold - 1e-4).is_empty()


@given(studies(), st.sampled_from(METHODS), st.randoms())
@settings(max_examples=6)
def test_clusters_of_phrases_do_not_depend_on_the_order_of_rows(
    study: tuple[list[Meaning], pl.DataFrame, Vectors], method: str, lots: Random
) -> None:
    _, phrases, vectors = study
    order = list(range(phrases.height))
    lots.shuffle(order)
    assert unify(phrases[order], vectors[order], method=method).equals(
        unify(phrases, vectors, method=method)[order]
    )


def plain_leader(
    meanings: list[Meaning], phrases: pl.DataFrame, vectors: Vectors, threshold: float
) -> dict[str, str]:
    """Add each phrase to the most similar leader whose cluster it may enter, as the definition says."""
    texts, mentions = phrases["phrase"].to_list(), phrases["mentions"].to_list()
    members: dict[int, list[int]] = {}
    # Vectors are rounded to multiples of 1/4000, as documented, and computed with as whole numbers.
    coarse = np.rint(vectors.astype(np.float64) * 4000)
    leading = np.empty_like(coarse)
    for row in sorted(range(len(texts)), key=lambda row: (-mentions[row], texts[row])):
        leaders = list(members)
        products = leading[: len(leaders)] @ coarse[row]
        near = np.flatnonzero(products >= threshold * 4000**2)
        for place in near[np.argsort(-products[near], kind="stable")]:
            if not any(meanings[row].apart(meanings[member]) for member in members[leaders[place]]):
                members[leaders[place]].append(row)
                break
        else:
            leading[len(leaders)] = coarse[row]
            members[row] = [row]
    return {texts[row]: texts[leader] for leader, rows in members.items() for row in rows}


@given(studies(), st.sampled_from([0.3, 0.63, 0.9]))
@settings(max_examples=15)
def test_leader_clustering_equals_a_plain_loop(
    study: tuple[list[Meaning], pl.DataFrame, Vectors], threshold: float
) -> None:
    assert concepts(unify(study[1], study[2], threshold=threshold)) == plain_leader(*study, threshold)


@pytest.mark.parametrize(("count", "dimensions", "threshold"), [(5000, 3, 0.95), (7000, 12, 0.88)])
def test_leader_clustering_over_many_blocks_equals_a_plain_loop(
    count: int, dimensions: int, threshold: float
) -> None:
    rng = np.random.default_rng(5)
    sentences = [MEANINGS[place] for place in rng.choice([4, 0, 1], count, p=[0.9, 0.05, 0.05])]
    phrases = table([f"{meaning.words} {number:05d}" for number, meaning in enumerate(sentences)])
    vectors = unit(rng.standard_normal((count, dimensions)))
    unified = concepts(unify(phrases, vectors, threshold=threshold))
    assert unified == plain_leader(sentences, phrases, vectors, threshold)
    assert len(set(unified.values())) > (4096 if dimensions == 12 else 100)


def partition(labels: list[str] | NDArray[np.int64]) -> set[frozenset[int]]:
    return {
        frozenset(row for row, assigned in enumerate(labels) if assigned == label) for label in set(labels)
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("method", "kind"), [("components", "single"), ("average", "average")])
def test_linkage_equals_that_of_scipy_on_the_whole_matrix(method: str, kind: str, seed: int) -> None:
    vectors = unit(np.random.default_rng(seed).standard_normal((300, 5)))
    unified = unify(
        table([f"w{number:03d}" for number in range(300)]), vectors, threshold=0.85, method=method
    )
    distance = 1 - vectors.astype(np.float64) @ vectors.T
    np.fill_diagonal(distance, 0)
    expected = fcluster(linkage(squareform(distance, checks=False), kind), 0.15, "distance")
    assert partition(unified["concept"].to_list()) == partition(expected)


def test_components_with_many_links_are_found() -> None:
    count = 3000
    vectors = unit(
        np.random.default_rng(1).standard_normal((count, 4)) * 0.01 + np.eye(4)[np.arange(count) % 4]
    )
    unified = unify(table([f"w{number:04d}" for number in range(count)]), vectors, method="components")
    assert unified["concept"].unique().sort().to_list() == ["w0000", "w0001", "w0002", "w0003"]


def test_spellings_are_one_concept_named_by_the_most_frequent_one() -> None:
    phrases = table(["kind", "Kind", " kind. ", "“KIND”", "brave", "—", "?!"], [2, 5, 1, 1, 9, 1, 1])
    unified = unify(phrases, unit(np.eye(7)))
    assert unified["concept"].to_list() == ["Kind", "Kind", "Kind", "Kind", "brave", "—", "?!"]
    assert unified["similarity"].to_list() == [1.0] * 7


def test_mentions_of_all_spellings_decide_which_phrase_names_the_concept() -> None:
    phrases = table(["helpful", "supportive", "Supportive"], [5, 3, 3])
    unified = unify(phrases, unit(np.array([[1.0, 0.1], [1, 0], [1, 0]])))
    assert concepts(unified) == dict.fromkeys(phrases["phrase"], "Supportive")


def test_phrases_are_unified_by_words_without_an_encoder() -> None:
    helpers = ["helps others", "Helping others", "help others", "helps the others."]
    bibles = ["carries a Bible", "carry Bibles", "carrying the Bible"]
    apart = [
        "short",
        "shorts",
        "born",
        "bearing",
        "helpful",
        "avoids a Bible",
        "Muslim",
        "Christian",
        "boring",
        "bored",
        "impatient",
        "patient",
    ]
    entries = unify_words(table([*helpers, *bibles, "is kind", "kind", *apart]))
    unified = concepts(entries)
    expected = (
        dict.fromkeys(helpers, "helps others")
        | dict.fromkeys(bibles, "carries a Bible")
        | dict.fromkeys(("is kind", "kind"), "is kind")
    )
    assert unified == expected | {phrase: phrase for phrase in apart}


def test_terms_of_a_user_replace_the_built_in_terms(tmp_path: Path) -> None:
    phrases, vectors = table(["proud Martian", "proud Venusian", "proud"]), unit(np.ones((3, 2)))
    assert unify(phrases, vectors)["concept"].n_unique() == 1
    terms = tmp_path / "own.yaml"
    terms.write_text(
        'identities: {planets: {Mars: {terms: ["Martian, Mars"]}, Venus: {terms: [Venusian]}}}',
        encoding="utf-8",
    )
    assert unify(phrases, vectors, terms=str(terms))["concept"].n_unique() == 3


def test_no_phrases_give_no_concepts_and_vectors_must_be_finite() -> None:
    assert unify(table([], []), np.empty((0, 3), dtype=np.float32)).is_empty()
    assert unify_words(table([], [])).is_empty()
    with pytest.raises(ValueError, match="finite"):
        unify(table(["a", "b"]), unit(np.eye(2)) * np.float32("nan"))


def test_average_linkage_refuses_too_large_components(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiltmeter.associations._concepts.MOST_IN_COMPONENT", 3)
    vectors = np.ones((4, 1), dtype=np.float32)
    with pytest.raises(InputError, match=r"4 phrases are connected.*increase the threshold"):
        unify(table(["a", "b", "c", "d"]), vectors, method="average")
    assert unify(table(["a", "b", "c"]), vectors[:3], method="average")["concept"].n_unique() == 1
