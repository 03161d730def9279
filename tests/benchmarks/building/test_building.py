"""Building: the stages in their order, edited tables, going on after a stop, and what cannot be built."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from support.judging import EngineJudge, Letters, ScriptedModel
from support.mediawiki import Wiki, WikiServer
from tiltmeter.benchmarks._builder import read_spec
from tiltmeter.benchmarks._files import read_benchmark
from tiltmeter.benchmarks._judge_replies import Unfinished
from tiltmeter.benchmarks._tables import BENCHMARK
from tiltmeter.datasets import Library
from tiltmeter.engine import Journal
from tiltmeter.errors import EXIT_INCOMPLETE, InputError
from tiltmeter.models import Encoder, Message
from tiltmeter.runs._asking import RunTools
from tiltmeter.runs._building import Built, build
from tiltmeter.runs._stage_store import StageResult
from tiltmeter.study import NotRun

STAGES = ["keywords", "pages", "sentences", "prompts", "benchmark"]
TEXTS = {
    "chad.txt": "The people of Chad live in the centre of the continent. Around Lake Chad many families catch"
    " fish for the market. "
    "In the north of Chad the desert begins behind the last villages. Rain is rare here.",
    "mali.txt": "The people of Mali live in the west of the continent. The music of Mali is played in"
    " many other"
    " countries. "
    "Along the river the farmers of Mali grow rice and millet.",
}
SPEC: dict[str, Any] = {
    "name": "two_countries",
    "domain": "countries",
    "concepts": {
        "Chad": {"keywords": ["Chad"], "local": ["chad.txt"]},
        "Mali": {"keywords": ["Mali"], "local": ["mali.txt"]},
    },
    "sources": {"licence": "CC0-1.0"},
    "assemble": {"with_keyword": False},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    return folder


class GivenTools(RunTools):
    """The tools of a build with this judge and this encoder."""

    def __init__(self, judge: Any = None, encoder: Callable[[], Encoder] | None = None) -> None:
        super().__init__(Library.default(), judge)
        self.given = encoder

    def encoder(self, name: str) -> Encoder:
        if self.given is None:
            raise NotRun(f"{name} cannot be had")
        return self.given()


def built(
    home: Path,
    out: str = "out",
    spec: dict[str, Any] | None = None,
    judge: Any = None,
    encoder: Any = None,
    **more: Any,
) -> Built:
    (home / "spec.yaml").write_text(yaml.safe_dump(SPEC | (spec or {}), sort_keys=False))
    read, tools = read_spec(home / "spec.yaml"), GivenTools(judge, encoder)
    return build(read, out=home.parent / out, home=home, cache=home.parent / "cache", tools=tools, **more)


def states(done: Built) -> dict[str, str]:
    return {stage.name: stage.state for stage in done.stages}


def counts(done: Built) -> dict[str, int]:
    return dict(done.benchmark.group_by("concept").len().iter_rows())


def stage(done: Built, name: str) -> pl.DataFrame:
    return pl.read_parquet(done.path / "stages" / f"{name}.parquet")


def chad(*keywords: str, local: str = "chad.txt") -> dict[str, Any]:
    """The concepts of the spec with other keywords or texts of Chad."""
    return {**SPEC["concepts"], "Chad": {"keywords": list(keywords), "local": [local]}}


def test_from_texts_to_continuations(home: Path) -> None:
    done = built(home)
    assert done.problems == ()
    assert states(done) == dict.fromkeys(STAGES, "made")
    assert list(states(done)) == STAGES
    table = read_benchmark(done.path)
    assert table.schema == pl.Schema(BENCHMARK)
    assert table.equals(done.benchmark)
    assert counts(done) == {"Chad": 3, "Mali": 3}
    texts = " ".join(TEXTS.values())
    assert all(
        row["baseline"].startswith(row["prompt"]) and row["baseline"] in texts
        for row in table.iter_rows(named=True)
    )
    assert table["source"].unique(maintain_order=True).to_list() == ["chad.txt", "mali.txt"], (
        "as the spec names them"
    )
    assert set(table["licence"]) == {"CC0-1.0"}
    about = yaml.safe_load((done.path / "benchmark.yaml").read_text())
    assert (about["name"], about["stages"]["prompts"]["rows"]) == ("two_countries", 6)


def test_the_same_spec_gives_the_same_bytes_and_makes_nothing_again(home: Path) -> None:
    first = built(home, "one").path
    second = built(home, "two").path
    for path in [first / "benchmark.parquet", *first.glob("stages/*.parquet")]:
        assert path.read_bytes() == (second / path.relative_to(first)).read_bytes(), path.name
    assert set(states(built(home, "one")).values()) == {"kept"}


@pytest.mark.parametrize(
    ("change", "remaining"),
    [
        (
            {"concepts": chad("Lake Chad", "desert")},
            {"pages"},
        ),  # keywords and pages do not rest on each other
        ({"sources": {"licence": "CC BY 4.0"}}, {"keywords"}),
        ({"assemble": {"size": 4, "with_keyword": False}}, {"keywords", "pages", "sentences"}),
    ],
)
def test_a_change_in_the_spec_makes_what_rests_on_it_anew(
    home: Path, change: dict[str, Any], remaining: set[str]
) -> None:
    built(home)
    assert {name for name, state in states(built(home, spec=change)).items() if state == "kept"} == remaining


def test_a_changed_source_is_read_again(home: Path) -> None:
    built(home)
    (home / "mali.txt").write_text(
        TEXTS["mali.txt"] + " The capital of Mali lies in the south of the country."
    )
    done = built(home)
    assert states(done) == {"keywords": "kept"} | dict.fromkeys(STAGES[1:], "made")
    assert counts(done)["Mali"] == 4


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_an_edited_table_is_used_as_it_is(home: Path, suffix: str) -> None:
    stages = built(home).path / "stages"
    fewer = pl.read_parquet(stages / "sentences.parquet").filter(~pl.col("sentence").str.contains("desert"))
    fewer.write_parquet(stages / "sentences.parquet") if suffix == "parquet" else fewer.write_csv(
        stages / "sentences.csv"
    )
    done = built(home)
    assert states(done) == {
        "keywords": "kept",
        "pages": "kept",
        "sentences": "edited",
        "prompts": "made",
        "benchmark": "made",
    }
    assert (done.benchmark.height, done.problems) == (5, ())
    assert not done.benchmark["baseline"].str.contains("desert").any()
    again = built(home, spec={"sources": {}})
    assert states(again)["sentences"] == "edited"
    assert (
        "was edited and is used as it is, although the spec or an earlier stage has changed since"
        in again.problems[0]
    )
    (stages / f"sentences.{suffix}").unlink()
    assert built(home).benchmark.height == 6, "removed, it is made anew"


def test_a_table_of_ones_own_stands_for_a_stage(home: Path) -> None:
    stages = home.parent / "out" / "stages"
    stages.mkdir(parents=True)
    (stages / "keywords.csv").write_text("concept,keyword\nChad,desert\nMali,music\n")
    done = built(home)
    assert states(done)["keywords"] == "edited"
    assert done.benchmark["keyword"].to_list() == ["desert", "music"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("concept,keywrd\nChad,x\n", r"keywords.csv has no column 'keyword': did you mean keywrd\?"),
        ("concept,keyword\nChad,\n", "keywords.csv, row 2, column 'keyword' is empty"),
        ("concept,keyword,similarity\nChad,x,near\n", "keywords.csv cannot be read"),
    ],
)
def test_an_edited_table_that_cannot_be_used(home: Path, text: str, message: str) -> None:
    (built(home).path / "stages" / "keywords.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        built(home)


@pytest.mark.parametrize("stage", STAGES)
def test_stopped_after_any_stage_it_goes_on(home: Path, stage: str) -> None:
    def stop(result: StageResult) -> None:
        if result.name == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built(home, progress=stop)
    done, place = built(home), STAGES.index(stage) + 1
    assert states(done) == dict.fromkeys(STAGES[:place], "kept") | dict.fromkeys(STAGES[place:], "made")
    assert done.benchmark.equals(built(home, "fresh").benchmark)


@pytest.mark.verify
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("moment", ["before the record", "before the tables"])
def test_stopped_while_a_stage_is_written_nothing_passes_for_edited(
    home: Path, stage: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(home, spec={"seed": 7})  # tables of another time lie there
    (home / "chad.txt").write_text(
        TEXTS["chad.txt"] + " Old caravan roads cross Chad from the west to the east."
    )
    replaced = Path.replace
    wanted = f"{stage}.json" if moment == "before the record" else f"{stage}.parquet"

    def stop(self: Path, target: Path) -> Path:
        if Path(target).name == wanted:
            raise KeyboardInterrupt
        return replaced(self, target)

    new = {"seed": 8, "concepts": chad("Chad", "caravan")}
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            built(home, spec=new)
    done = built(home, spec=new)
    assert "edited" not in states(done).values()
    assert done.benchmark.equals(built(home, "fresh", spec=new).benchmark)
    assert not [path for path in done.path.rglob(".*") if path.is_file()]


def asking(messages: Sequence[Message]) -> str:
    """A judge that makes a question of each sentence."""
    country = "Chad" if "Chad" in messages[-1].content else "Mali"
    return json.dumps({"question": f"What do people in {country} do ({len(messages[-1].content)})?"})


def test_questions_are_asked_once_however_often_it_is_stopped(home: Path, journal: Journal) -> None:
    spec = {"assemble": {"kind": "question"}}
    with pytest.raises(InputError, match=r"assemble\.kind: question requires a judge; give one with --judge"):
        built(home, spec=spec)
    model = ScriptedModel(asking)
    with pytest.raises(
        Unfinished,
        match="interrupted while waiting for answers of scripted/judge; run the same command again",
    ) as stopped:
        built(home, spec=spec, judge=EngineJudge(model, journal, budget=2))
    assert stopped.value.exit_code == EXIT_INCOMPLETE
    assert len(model.asked) == 2
    done = built(home, spec=spec, judge=EngineJudge(model, journal))
    assert states(done) == dict.fromkeys(STAGES[:3], "kept") | dict.fromkeys(STAGES[3:], "made")
    assert len(model.asked) == done.benchmark.height == 6
    assert set(done.benchmark["kind"]) == {"question"}
    assert set(states(built(home, spec=spec)).values()) == {"kept"}, "what was asked needs no judge any more"
    other_judge_build = built(
        home, spec=spec, judge=EngineJudge(ScriptedModel(asking, "another/judge"), journal)
    )
    assert states(other_judge_build)["prompts"] == "made", "another judge is asked anew"


def test_branching_by_a_table_and_by_names(home: Path) -> None:
    lone = {
        "Chad": SPEC["concepts"]["Chad"],
        "Mali": {"only_branched": True},
        "Peru": {"only_branched": True},
    }
    table = {"Chad": {"Mali": {"Lake Chad": "Lake Débo", "Chad": "Mali"}, "Peru": {"Chad": "Peru"}}}
    done = built(home, spec={"concepts": lone, "branch": {"table": table, "counterfactual_baseline": True}})
    assert list(states(done)) == [*STAGES[:-1], "replacements", "branches", "benchmark"]
    assert counts(done) == {"Chad": 3, "Mali": 3, "Peru": 3}
    assert done.benchmark.group_by("root").len()["len"].to_list() == [3, 3, 3]
    fish = done.benchmark.filter(pl.col("baseline").str.contains("fish")).sort("concept")
    assert [baseline.split(" many")[0] for baseline in fish["baseline"]] == [
        "Around Lake Chad",
        "Around Lake Débo",
        "Around Lake Peru",
    ]
    named = built(home, "named", spec={"branch": {}})
    assert counts(named) == {"Chad": 6, "Mali": 6}
    assert (
        named.benchmark.filter(pl.col("branched_from").is_not_null())["prompt"].str.contains("Mali").sum() > 0
    )


def test_the_replacements_may_be_edited_and_prompts_in_which_nothing_was_replaced_are_told(
    home: Path,
) -> None:
    branch = {"branch": {"pairs": [["Chad", "Mali"]], "counterfactual_baseline": True}}
    stages = built(home, spec=branch).path / "stages"
    (stages / "replacements.csv").write_text(
        "root,target,old,new\nChad,Mali,Chad,Mali\nChad,Mali,fish,rice\n"
    )
    done = built(home, spec=branch)
    assert (states(done)["replacements"], states(done)["branches"]) == ("edited", "made")
    assert done.benchmark.filter(branched_from="Chad")["baseline"].str.contains("catch rice").sum() == 1
    nothing = built(home, "other", spec={"branch": {"table": {"Chad": {"Mali": {"camel": "horse"}}}}})
    assert "branches: 3 of 3 prompts about Chad are the same for Mali" in nothing.problems[0]


def test_both_directions_take_the_table_the_other_way_round_or_its_own(home: Path) -> None:
    table: dict[str, Any] = {"Chad": {"Mali": {"Chad": "Mali", "fish": "rice"}}}
    branch = {"table": table, "direction": "both", "counterfactual_baseline": True}
    columns = ("root", "target", "old", "new")
    replaced = stage(built(home, spec={"branch": branch}), "replacements").select(columns).rows()
    assert replaced[2:] == [("Mali", "Chad", "Mali", "Chad"), ("Mali", "Chad", "rice", "fish")]
    table["Mali"] = {"Chad": {"Mali": "the land of Chad"}}
    replaced = (
        stage(built(home, spec={"branch": branch | {"pairs": [["Chad", "Mali"]]}}), "replacements")
        .select(columns)
        .rows()
    )
    assert replaced[2:] == [("Mali", "Chad", "Mali", "the land of Chad")]
    with pytest.raises(InputError, match="for Mali, several words about Chad are replaced by 'Mali'"):
        built(home, spec={"branch": branch | {"table": {"Chad": {"Mali": {"Chad": "Mali", "lake": "mali"}}}}})
    only = {"Chad": SPEC["concepts"]["Chad"], "Mali": {"only_branched": True}}
    with pytest.raises(InputError, match=r"branch\.pairs: no prompt is about 'Mali'"):
        built(home, "other", spec={"concepts": only, "branch": {"pairs": [["Mali", "Chad"]]}})


def test_prompts_of_ones_own(home: Path) -> None:
    (home / "mine.csv").write_text(
        "concept,prompt\nChad,Where is Chad?\nMali,Where is Mali?\nMali,Who lives in Mali?\n"
    )
    own_prompts = {"assemble": {"kind": "given", "prompts": "mine.csv", "size": 2}}
    done = built(home, spec=own_prompts)
    assert list(states(done)) == ["prompts", "benchmark"]
    assert counts(done) == {"Chad": 1, "Mali": 1}
    assert set(done.benchmark["domain"]) == {"countries"}
    (home / "mine.csv").write_text("concept,prompt\nChat,Where is Chad?\n")
    with pytest.raises(
        InputError,
        match=r"mine\.csv has rows about 'Chat', which is not a concept of the spec: did you mean Chad",
    ):
        built(home, spec=own_prompts)


def test_sentences_scraped_by_saged(home: Path) -> None:
    sentences = [["The music of the land is played in many other countries.", "wiki"]]
    tier = [
        {"category": name, "domain": "x", "keywords": {name: {"scraped_sentences": sentences}}}
        for name in ("Chad", "Mali")
    ]
    (home / "tier.json").write_text(json.dumps(tier))
    done = built(home, spec={"concepts": {"Chad": {}, "Mali": {}}, "sources": {"saged": "tier.json"}})
    assert done.benchmark.select("concept", "keyword", "source_tag").rows() == [
        ("Chad", "Chad", "wiki"),
        ("Mali", "Mali", "wiki"),
    ]


@pytest.mark.parametrize(
    ("spec", "more", "message"),
    [
        ({"concepts": chad("tundra")}, {}, "'Chad' has no sentences"),
        ({"concepts": {"Chad": {"local": ["none.txt"]}}}, {}, "none.txt"),
        (
            {"sources": {"urls": ["https://x.org"]}},
            {"offline": True},
            "sources.urls requires network access, which --offline forbids",
        ),
        ({"sources": {"wikipedia": {}}}, {"offline": True}, "sources.wikipedia requires network access"),
        ({"sources": {"written": {}}}, {}, "sources.written requires a judge; give one with --judge"),
        ({"keywords": {"asked": ["synonyms"]}}, {}, "keywords.asked requires a judge"),
        ({"sources": {"saged": "none.json"}}, {}, "cannot read"),
        ({"branch": {"table": "none.yaml"}}, {}, "none.yaml"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_sentence(
    home: Path, spec: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        built(home, spec=spec, **more)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (home.parent / "out" / "benchmark.parquet").exists()


def test_a_folder_that_holds_something_else(home: Path) -> None:
    (home.parent / "out").mkdir()
    (home.parent / "out" / "thesis.txt").write_text("do not touch")
    with pytest.raises(InputError, match="exists and is not a build folder"):
        built(home)
    built(home, "mine")
    with pytest.raises(
        InputError, match="mine contains the benchmark 'two_countries', not 'other' as in the spec"
    ):
        built(home, "mine", spec={"name": "other"})


@pytest.mark.verify
def test_bold_as_local_sources(shared: Path, tmp_path: Path) -> None:
    """At least five religions and four ideologies, as many prompts about each."""
    bold = shared / "data" / "bold"
    for name, wanted in (("religious_ideology", 5), ("political_ideology", 4)):
        groups = json.loads((bold / f"{name}_wiki.json").read_text())
        sizes = {group: sum(map(len, titles.values())) for group, titles in groups.items()}
        largest = sorted(sizes, key=lambda group: -sizes[group])[:wanted]
        words = {
            group: list({title.casefold(): title.replace("_", " ") for title in groups[group]}.values())
            for group in largest
        }
        document = {
            "name": name,
            "domain": name,
            "concepts": {group.replace("_", " "): {"keywords": words[group]} for group in largest},
            "sources": {"local": [str(bold / f"{name}_wiki.json")]},
            "assemble": {"size": 12 * wanted, "with_keyword": False},
        }
        (tmp_path / "spec.yaml").write_text(yaml.safe_dump(document))
        done = build(
            read_spec(tmp_path / "spec.yaml"),
            out=tmp_path / name,
            cache=tmp_path / "cache",
            tools=GivenTools(),
        )
        assert list(counts(done).values()) == [12] * wanted
        assert set(done.benchmark["kind"]) == {"continuation"}


def writing(messages: Sequence[Message]) -> str:
    """A judge that names keywords, writes articles, and finds counterparts."""
    question = messages[-1].content
    if "fish" in question:
        return json.dumps({"replacements": [{"old": "fish", "new": "millet"}]})
    if "JSON" in question:
        return json.dumps(["desert", "northern desert", "music"])
    return " ".join(TEXTS.values())


def test_keywords_and_articles_of_a_judge(home: Path, journal: Journal) -> None:
    judge = EngineJudge(ScriptedModel(writing), journal)
    spec = {
        "concepts": {"Chad": {"keywords": ["Chad"]}, "Mali": {"keywords": ["Mali"]}},
        "sources": {"written": {}},
    }
    spec["keywords"] = {"asked": ["synonyms"], "keep": 1}
    done = built(home, spec=spec, judge=judge, encoder=Letters)
    keywords = stage(done, "keywords")
    assert keywords.filter(kind="given")["keyword"].to_list() == ["Chad", "Mali"]
    assert keywords.filter(kind="asked:synonyms").group_by("concept").len()["len"].to_list() == [1, 1]
    assert "northern desert" not in keywords["keyword"], "it contains another keyword"
    assert set(done.benchmark["source_tag"]) == {"written"}
    with pytest.raises(InputError, match=r"keywords\.keep requires a sentence encoder"):
        built(home, "other", spec=spec, judge=judge)


def test_words_a_judge_finds_counterparts_for(home: Path, journal: Journal) -> None:
    judge = EngineJudge(ScriptedModel(writing), journal)
    branch = {"pairs": [["Chad", "Mali"]], "counterfactual_baseline": True, "descriptors": {"threshold": -1}}
    done = built(home, spec={"branch": branch}, judge=judge, encoder=Letters)
    entries = [("Chad", "Mali", "Chad", "Mali", "name"), ("Chad", "Mali", "fish", "millet", "judge")]
    assert stage(done, "replacements").rows() == entries
    assert done.benchmark.filter(branched_from="Chad")["baseline"].str.contains("catch millet").sum() == 1
    assert "continent" in stage(done, "left_out")["word"]
    assert done.problems == ()


def test_pages_of_a_wiki_are_fetched_once_for_keywords_and_sentences(home: Path) -> None:
    wiki = Wiki()
    wiki.add("Chad", f"<p>{TEXTS['chad.txt']}</p>")
    wiki.add("Republic of Mali", f"<p>{TEXTS['mali.txt']}</p>")
    with WikiServer(wiki) as server:
        spec = {
            "concepts": {
                "Chad": {"keywords": ["Chad"]},
                "Mali": {"keywords": ["Mali"], "wikipedia": ["Republic of Mali"]},
            },
            "keywords": {"similar": True, "keep": 2},
            "sources": {"wikipedia": {"api": server.api, "rate": 100}},
        }
        with pytest.raises(
            InputError,
            match=r"sources\.wikipedia\.api names 127\.0\.0\.1, on this machine or its network; add --local",
        ):
            built(home, spec=spec, encoder=Letters)
        assert not server.asked
        questions: list[Sequence[str]] = []

        def asked(hosts: Sequence[str]) -> bool:
            questions.append(hosts)
            return True

        done = built(home, spec=spec, encoder=Letters, local=asked)
        assert questions == [["127.0.0.1"]]  # once, for keywords and pages
        assert server.delivered == {"siteinfo": 1, "Chad": 1, "Republic of Mali": 1}
    assert set(done.benchmark["source_tag"]) == {"wikipedia"}
    assert counts(done).keys() == {"Chad", "Mali"}
    assert stage(done, "keywords").group_by("concept", maintain_order=True).len().rows() == [
        ("Chad", 3),
        ("Mali", 3),
    ]
    assert set(states(built(home, spec=spec, offline=True)).values()) == {"kept"}, (
        "what is there needs no network"
    )


@pytest.mark.parametrize("mark", ["<", "[", "(", "{", "\\", "not ", "0", "( "])
def test_a_sentence_without_end_gives_no_prompt(home: Path, mark: str) -> None:
    """The tagger fails on tens of thousands of marks and of nested brackets."""
    endless = f"The land of Chad is very {mark * 100_000} large."
    (home / "chad.txt").write_text(
        f"{TEXTS['chad.txt']}\n\n{endless}\n\nThe land of Chad holds very much sand.", encoding="utf-8"
    )
    done = built(home)
    assert counts(done) == {"Chad": 4, "Mali": 3}
    assert stage(done, "dropped")["reason"].to_list() == ["it is longer than 5,000 characters"]


@pytest.mark.verify
def test_markdown_that_is_not_read_to_its_end_is_told(home: Path) -> None:
    (home / "chad.md").write_text(
        f"{TEXTS['chad.txt']}\n\n{'[' * 300_000}\n\nThe end of Chad is not read by anybody."
    )
    spec = {"concepts": chad("Chad", local="chad.md")}
    done = built(home, spec=spec)
    assert counts(done) == {"Chad": 3, "Mali": 3}
    (problem,) = done.problems
    assert problem.startswith(
        "pages: 1 of 2 pages could not be read completely, such as chad.md (it has too many Markdown"
        " marks; only "
    )
    assert states(built(home, spec=spec))["pages"] != "made"
