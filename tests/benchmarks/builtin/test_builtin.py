"""The built-in studies: complete, balanced, and about what they say they are about."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from tiltmeter.benchmarks._branching import branch
from tiltmeter.benchmarks._builder import read_spec
from tiltmeter.benchmarks._builtin import NAMES, __file__ as BUILTIN, builtin
from tiltmeter.benchmarks._tables import BENCHMARK
from tiltmeter.errors import InputError

FOLDER = Path(BUILTIN).parent


@pytest.mark.parametrize("name", NAMES)
def test_every_study_is_a_valid_benchmark(name: str) -> None:
    study = builtin(name)
    table = study.benchmark
    assert dict(table.schema) == dict(BENCHMARK)
    assert table.select(pl.col("key", "prompt").is_unique().all()).row(0) == (True, True)
    paired = table["concept"].n_unique() if name == "religions" else 1  # the sentences on one topic
    assert table["root"].value_counts()["count"].unique().to_list() == [paired]
    assert table["branched_from"].is_null().all()
    required = (
        "domain",
        "concept",
        "keyword",
        "source_tag",
        "kind",
        "prompt",
        "baseline",
        "source",
        "position",
        "licence",
    )
    assert table.select(pl.col(required).null_count()).sum_horizontal().item() == 0
    assert table.select(pl.col("prompt", "baseline").str.contains(r"^\s|\s$|\s\s|\|").any()).row(0) == (
        False,
        False,
    )
    assert study.title
    assert study.description
    (first, none), *further_roles = study.roles.items()
    assert (first, none, [text is None for _, text in further_roles]) == ("none", None, [False] * 4)
    assert {template.count("{prompt}") for template in study.templates.values()} == {1}


def test_the_article_and_its_questions() -> None:
    study = builtin("g20")
    sections = yaml.safe_load((FOLDER / "g20" / "article.yaml").read_text(encoding="utf-8"))["sections"]
    article = " ".join(
        sentence if isinstance(sentence, str) else sentence["text"]
        for section in sections
        for sentence in section["sentences"]
    )
    assert 1_500 <= len(article.split()) <= 3_800
    assert study.benchmark.height == 75
    sentences = set(re.split(r"(?<=[.])\s+", article))
    assert set(study.benchmark["baseline"]) <= sentences
    assert len(sentences) > 75  # and others that no question is about
    assert study.benchmark["keyword"].is_unique().all()
    assert study.benchmark["prompt"].str.contains(r"\bOstelia\b.*\?$").all()


def test_the_article_mixes_praise_and_problems() -> None:
    analyser = SentimentIntensityAnalyzer()
    scores = np.array(
        [analyser.polarity_scores(text)["compound"] for text in builtin("g20").benchmark["baseline"]]
    )
    assert min((scores > 0.2).sum(), (scores < -0.2).sum()) >= 15
    assert abs(scores.mean()) < 0.15


@cache
def branched(name: str) -> pl.DataFrame:
    study = builtin(name)
    assert study.replacements is not None
    return branch(study.benchmark, study.replacements, counterfactual_baseline=True).benchmark


def test_branching_gives_the_published_size() -> None:
    study, table = builtin("g20"), branched("g20")
    assert study.replacements is not None
    assert table["concept"].value_counts()["count"].to_list() == [75] * 21
    away = table.filter(pl.col("concept") != "Ostelia")
    assert (
        away.filter(pl.any_horizontal(pl.col("prompt", "baseline").str.contains("(?i)osteli|verrin")))[
            "key"
        ].to_list()
        == []
    )
    currencies = away.filter(
        pl.col("baseline").str.starts_with("The ")
        & pl.col("baseline").str.contains("lost a tenth of its value")
    )
    assert {"The Australian dollar", "The South Korean won"} <= set(
        currencies["baseline"].str.extract("^(.*) has lost")
    )
    for target, words in study.replacements["Ostelia"].items():
        assert away.filter(concept=target)["prompt"].str.contains(words["Ostelia"], literal=True).all()
    wrong_article = r"\b(?:a [AEIOaeio]|an [BCDFGJKPQTVWZbcdfgjkpqtvwz])"
    assert table.select(pl.col("prompt", "baseline").str.contains(wrong_article).any()).row(0) == (
        False,
        False,
    )


@pytest.mark.parametrize("name", ["g20", "parties"])
def test_sentences_begin_as_they_should_after_branching(name: str) -> None:
    begin = pl.col("prompt", "baseline").str.contains("^[A-Z]")
    assert branched(name).filter(~pl.all_horizontal(begin)).is_empty()


def test_parties_ask_the_same_of_six_ideologies() -> None:
    study, table = builtin("parties"), branched("parties")
    assert study.replacements is not None
    assert (table["concept"].n_unique(), table.height) == (6, 6 * study.benchmark.height)
    away = table.filter(pl.col("concept") != "conservatism")
    assert (
        away.filter(pl.any_horizontal(pl.col("prompt", "baseline").str.contains("(?i)conservat")))[
            "key"
        ].to_list()
        == []
    )
    assert set(away["concept"]) == set(study.replacements["conservatism"])
    assert away.select(pl.col("prompt").str.contains(pl.col("concept"), literal=True).all()).item()
    baselines = away.filter(concept="anarchism")["baseline"].to_list()
    assert (
        "At an anarchist meeting there are usually a chair, a list of speakers and a vote at the end."
        in baselines
    )
    assert "Opinions on immigration vary among anarchists, as surveys in several countries show." in baselines


def test_religions_are_balanced_and_name_the_religion_before_the_cut() -> None:
    table = builtin("religions").benchmark
    assert table["concept"].value_counts()["count"].to_list() == [12] * 6
    for concept, prompt, baseline in table.select("concept", "prompt", "baseline").iter_rows():
        assert re.search(rf"\b{concept}\b", prompt)
        assert baseline.startswith(f"{prompt} ")
        assert (prompt[-1] == ".", baseline[-1]) == (False, ".")
        assert len(prompt.split()) >= 4
        assert len(baseline.split()) - len(prompt.split()) >= 2
    assert table["keyword_in_prompt"].all()
    assert table["root"].equals(table["key"].str.extract(r"-(.+)$").alias("root"))


@pytest.mark.parametrize("name", NAMES)
def test_roles_are_no_real_people(name: str) -> None:
    for text in filter(None, builtin(name).roles.values()):
        assert re.match(r"You are an? (?!\S*[A-Z])", text)
        assert not re.search(r"(?<![.] )(?<!^)\b[A-Z][a-z]+", text.replace("English", ""))


@pytest.mark.parametrize(
    ("name", "file", "groups"), [("religions", "religious", 5), ("parties", "political", 4)]
)
def test_keywords_find_sentences_in_bold(shared: Path, name: str, file: str, groups: int) -> None:
    pages = json.loads((shared / "data" / "bold" / f"{file}_ideology_wiki.json").read_text(encoding="utf-8"))
    sentences = {
        sentence
        for group in pages.values()
        for sentences_of_page in group.values()
        for sentence in sentences_of_page
    }
    spec = FOLDER / name / "spec.yaml"
    concepts = yaml.safe_load(spec.read_text(encoding="utf-8"))["concepts"]
    assert set(concepts) <= {
        *builtin(name).benchmark["concept"],
        *(builtin(name).replacements or {}).get("conservatism", {}),
    }
    counts = {}
    for concept, given in concepts.items():
        pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, given['keywords']))})\b", re.IGNORECASE)
        counts[concept] = sum(bool(pattern.search(sentence)) for sentence in sentences)
    assert sum(count >= 60 for count in counts.values()) >= groups, counts


def test_an_unknown_name_is_said() -> None:
    with pytest.raises(InputError, match="did you mean religions"):
        builtin("religion")


@pytest.mark.parametrize("name", ["religions", "parties"])
def test_the_specifications_can_be_built_from(tmp_path: Path, name: str) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "one.txt").write_text("A text of one's own.", encoding="utf-8")
    copied = Path(shutil.copyfile(FOLDER / name / "spec.yaml", tmp_path / "spec.yaml"))
    assert read_spec(copied).domain == builtin(name).benchmark["domain"][0]
