"""Runs with `-P answers=constrained`, with servers that accept one form of it, several, or none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.choosing import FORMS, FREE, allowed_in, choice_of, choosing
from support.misbehaving import Behaviour, MisbehavingServer, prompt_of
from tiltmeter._app.live_progress import ModelProgress, Watcher
from tiltmeter.engine import Keys
from tiltmeter.models import Completion, Message, Sampling
from tiltmeter.probes._definitions import DEFAULT
from tiltmeter.schema import WITH_CONSTRAINED

RUN = "run genderbench/direct -m compatible/m --display none --retries 1 -P wording=plain --limit"
CONSTRAINED = ("-P", "answers=constrained")
N = 40
DEFINITION = DEFAULT.label


def findings(run: Path) -> pl.DataFrame:
    return pl.read_parquet(run / "findings.parquet")


def labels(run: Path) -> dict[str, str | None]:
    return dict(pl.read_parquet(run / "measures.parquet").select("prompt_id", "label").iter_rows())


def chosen(server: MisbehavingServer) -> dict[str, str | None]:
    """The labels of the choices in the requests of a server, by prompt."""
    bodies = [body for body in server.bodies if any(form in body for form in FORMS)]
    choices = {prompt_of(body): choice_of(body) for body in bodies}
    return {prompt: None if choice == "refuse" else choice for prompt, choice in choices.items()}


@pytest.mark.parametrize(
    "accepted", [("response_format",), ("guided_choice",), ("structured_outputs", "guided_choice")]
)
def test_constrained_answers_are_choices_of_the_list(
    tiltmeter: Tiltmeter, tmp_path: Path, accepted: tuple[str, ...]
) -> None:
    with choosing(*accepted) as server:
        done = tiltmeter(RUN, str(N), *CONSTRAINED, "--base-url", server.url, "--out", "run", exits=0)
        prompts = dict(
            pl.read_parquet(tmp_path / "run" / "design.parquet").select("prompt_id", "prompt").iter_rows()
        )
        read = {prompts[name]: label for name, label in labels(tmp_path / "run").items()}
        assert read == chosen(server)
        assert None in read.values()
        assert "were not constrained" not in done.stdout
        paid = server.requests
        again = tiltmeter(RUN, str(N), *CONSTRAINED, "--base-url", server.url, "--out", "run", exits=0)
        assert server.requests == paid
    assert again.stdout == done.stdout
    table = findings(tmp_path / "run")
    assert set(table["definition"]) == {f"{DEFINITION}{WITH_CONSTRAINED}"}
    refused = sum(label is None for label in read.values())
    counts = (
        table.filter((pl.col.metric == "fail_rate") & pl.col.wording.is_null())
        .select("answered", "refused")
        .row(0)
    )
    assert counts == (N - refused, refused)
    assert pl.read_parquet(tmp_path / "run" / "measures.parquet")["constrained"].all()


def test_free_answers_of_an_endpoint_that_rejects_every_form_are_counted(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    with choosing(free="no") as server:
        done = tiltmeter(RUN, str(N), *CONSTRAINED, "--base-url", server.url, "--out", "run", exits=0)
        paid = server.requests
        again = tiltmeter(RUN, str(N), *CONSTRAINED, "--base-url", server.url, "--out", "run", exits=0)
        assert server.requests == paid
    assert sum(server.paid.values()) == N
    sentence = f"compatible/m: {N} answers were not constrained"
    for message in (done.stdout, again.stdout):
        assert " ".join(message.split()).count(sentence) == 1
    assert sentence in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    run = tm.load(tmp_path / "run")
    assert run.problems == []
    caveats = tm.caveats(run).filter(code="unconstrained")
    assert caveats["sentence"].to_list() == [
        f"{sentence}; they are read by the rules unless they are exactly an allowed answer",
    ]
    assert run.finding("fail_rate").estimate == 0.0
    assert tiltmeter("gate", "run", "--fail-on-caveat", "unconstrained", "--allow-ungraded").returncode == 1


def test_unconstrained_answers_among_constrained_ones_are_counted(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        free = len(prompt_of(request)) % 2
        return FREE if free else json.dumps({"answer": choice_of(request)})

    with MisbehavingServer(script) as server:
        done = tiltmeter(RUN, str(N), *CONSTRAINED, "--base-url", server.url, "--out", "run", exits=0)
    free = sum(len(prompt) % 2 for prompt in server.paid)
    assert 0 < free < N
    assert f"compatible/m: {free} answers were not constrained" in " ".join(done.stdout.split())
    read = labels(tmp_path / "run")
    prompts = dict(
        pl.read_parquet(tmp_path / "run" / "design.parquet").select("prompt_id", "prompt").iter_rows()
    )
    assert all(read[name] == "no" for name, prompt in prompts.items() if len(prompt) % 2)


@pytest.mark.verify
def test_compare_shows_the_difference_of_free_and_constrained_answers(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    with choosing("response_format", free="Yes, I agree.") as server:
        tiltmeter(RUN, str(N), "--base-url", server.url, "--out", "free", exits=0)
        requests = server.requests
        tiltmeter(RUN, str(N), *CONSTRAINED, "--base-url", server.url, "--out", "constrained", exits=0)
        assert server.requests == 2 * requests
        share = pl.Series([choice == "yes" for choice in chosen(server).values() if choice]).mean()
    done = tiltmeter("compare free constrained", exits=0)
    assert "parameters differ: wording=plain and wording=plain, answers=constrained" in " ".join(
        done.stdout.split()
    )
    assert "default@" not in done.stdout
    rows = json.loads(tiltmeter("compare free constrained -f json", exits=0).stdout)
    row = next(
        difference
        for difference in rows["differences"]
        if difference["metric"] == "fail_rate" and difference["wording"] is None
    )
    assert row["first"] == 1.0
    assert row["second"] == pytest.approx(share)
    assert row["paired"]
    both = [tm.load(tmp_path / name) for name in ("free", "constrained")]
    assert tm.caveats(both).filter(code="mixed-definitions").is_empty()


def test_versions_of_a_definition_are_still_not_compared(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    with choosing("response_format") as server:
        tiltmeter(RUN, "5", "--base-url", server.url, "--out", "free", exits=0)
        tiltmeter(RUN, "5", *CONSTRAINED, "--base-url", server.url, "--out", "other", exits=0)
    table = findings(tmp_path / "other").with_columns(definition=pl.lit(f"default@1{WITH_CONSTRAINED}"))
    table.write_parquet(tmp_path / "other" / "findings.parquet")
    tiltmeter("compare free other", exits=2, says=f"uses the definition '{DEFINITION}'")


def test_free_answers_keep_their_keys_and_constrained_ones_have_others(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    with choosing("response_format") as server:
        tiltmeter(RUN, "5", "--base-url", server.url, "--out", "free", exits=0)
        tiltmeter(RUN, "5", *CONSTRAINED, "--base-url", server.url, "--out", "constrained", exits=0)
        tiltmeter(f"{RUN} 5 -P answers=free --base-url {server.url} --out again", exits=0)
        assert server.requests == 10
        key_of = Keys(f"compatible/m@{server.url}", Sampling(temperature=1.0, top_p=1.0, max_tokens=300))
    design = pl.read_parquet(tmp_path / "free" / "design.parquet")
    keys = {
        name: key_of([Message("user", prompt)], 0).hex()
        for name, prompt in design.select("prompt_id", "prompt").iter_rows()
    }
    ids = {}
    for run in ("free", "constrained", "again"):
        responses = pl.read_parquet(tmp_path / run / "responses.parquet")
        ids[run] = dict(responses.select("prompt_id", "request_id").iter_rows())
    assert ids["free"] == ids["again"] == keys
    assert not set(ids["constrained"].values()) & set(keys.values())
    assert "constrained" not in pl.read_parquet_schema(tmp_path / "free" / "measures.parquet")


def test_the_progress_of_a_run_counts_its_own_answers(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    journal = tmp_path / "runs" / "journal.sqlite"
    with choosing("response_format") as server:
        tiltmeter(RUN, "5", "--base-url", server.url, "--out", "free", exits=0)
        free = shutil.copy(journal, tmp_path / "free.sqlite")
        tiltmeter(RUN, "5", *CONSTRAINED, "--base-url", server.url, "--out", "constrained", exits=0)
    for place, answered in ((free, 0), (journal, 5)):
        with closing(Watcher(tmp_path / "constrained", str(place))) as watcher:
            assert watcher.look().models == (ModelProgress("compatible/m", answered, 5),)


@pytest.mark.verify
def test_models_that_do_not_accept_lists_are_asked_freely(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def reply(messages: list):\n"
        "    assert [message['role'] for message in messages] == ['user']\n"
        "    return 'no'\n"
    )
    models = ("-m", "sim/mild", "-m", "python/mine:reply")
    done = tiltmeter(
        "run genderbench/direct --display none --limit 20 --out run", *models, *CONSTRAINED, exits=0
    )
    for model in models[1::2]:
        assert f"{model}: 20 answers were not constrained" in " ".join(done.stdout.split())
    tiltmeter("run genderbench/direct --display none --limit 20 --out free", *models, exits=0)
    same = [pl.read_parquet(tmp_path / run / "responses.parquet") for run in ("run", "free")]
    assert same[0].equals(same[1])


def test_probes_of_free_text_are_named_once(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "three.yaml").write_text("study: genderbench\nparts: [direct, inventories, jobs_lum]\n")
    with choosing("response_format", free="She is kind. Her motto is hers.") as server:
        command = "run three.yaml -m compatible/m --display plain --limit 6 --out run"
        done = tiltmeter(command, *CONSTRAINED, "--base-url", server.url, exits=0)
        texts = [body for body in server.bodies if not any(form in body for form in FORMS)]
    sentence = "answers=constrained does not apply to inventories, jobs_lum, whose answers are free text"
    assert " ".join(done.stderr.split()).count(sentence) == 1
    assert "were not constrained" not in done.stdout
    assert len(texts) == 2 * 6 * 5
    definitions = dict(findings(tmp_path / "run").select("part", "definition").iter_rows())
    assert definitions == {
        "direct": f"{DEFINITION}{WITH_CONSTRAINED}",
        "inventories": DEFINITION,
        "jobs_lum": DEFINITION,
    }
    assert tm.caveats(tm.load(tmp_path / "run")).filter(code="mixed-definitions").is_empty()


@pytest.mark.parametrize(
    "command", ["run genderbench/direct -m sim/fair --out run", "plan genderbench/direct"]
)
def test_unknown_values_of_the_parameter_answers_are_refused(
    tiltmeter: Tiltmeter, tmp_path: Path, command: str
) -> None:
    done = tiltmeter(
        command,
        "-P",
        "answers=forced",
        exits=2,
        says="-P answers=forced: answers of the definition default can only be free or constrained",
    )
    assert len(done.stderr.strip().splitlines()) == 1
    tiltmeter(
        command,
        *CONSTRAINED,
        "--definition",
        "genderbench",
        exits=2,
        says="-P answers=constrained: answers of the definition genderbench can only be free",
    )
    assert not (tmp_path / "run").exists()


def test_responses_of_a_constrained_run_are_analysed_and_replayed(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    with choosing("response_format") as server:
        tiltmeter(RUN, "20", *CONSTRAINED, "--base-url", server.url, "--out", "run", exits=0)
    tiltmeter(
        "analyse run/responses.parquet --study genderbench/direct --limit 20 -P wording=plain --out again",
        *CONSTRAINED,
        exits=0,
    )
    tiltmeter(
        "run genderbench/direct -m replay/run --limit 20 -P wording=plain --display none --out replayed",
        *CONSTRAINED,
        exits=0,
    )
    assert labels(tmp_path / "run") == labels(tmp_path / "again") == labels(tmp_path / "replayed")


async def test_a_model_object_can_accept_lists_of_answers(workplace: Path) -> None:
    class Mine:
        name = fingerprint = endpoint = "mine/one"
        constrains = True

        async def __aenter__(self) -> Mine:
            return self

        async def __aexit__(self, *exception: object) -> None:
            return None

        async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
            allowed = json.loads(
                next(message.content for message in messages if message.role == "allowed_answers")
            )
            return Completion(json.dumps({"answer": allowed[0]}))

    run = await tm.arun(
        "genderbench/direct",
        model=Mine(),
        limit=10,
        params={"answers": "constrained"},
        display="none",
        out="run",
    )
    assert set(run.measures["label"]) == {"no"}
    assert run.measures["constrained"].all()


def refusing(constrained: int, free: int = 0) -> MisbehavingServer:
    """A server that refuses these percentages of constrained and of free prompts.

    It answers "no" to the others.
    """

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        allowed, place = allowed_in(request), crc32(prompt_of(request).encode()) % 100
        if allowed:
            return json.dumps({"answer": allowed[-1 if place < constrained else 0]})
        return "I cannot answer that question." if place < free else "No."

    return MisbehavingServer(script)


def refusals_in(run: Path) -> list[str]:
    return tm.caveats(tm.load(run)).filter(code="constrained-refusals")["sentence"].to_list()


@pytest.mark.verify
@pytest.mark.parametrize(("constrained", "free"), [(0, 0), (60, 60), (60, 0), (0, 60)])
def test_refusals_that_a_list_changes_are_a_caveat(
    tiltmeter: Tiltmeter, tmp_path: Path, constrained: int, free: int
) -> None:
    with refusing(constrained, free) as server:
        tiltmeter(RUN, "200", "--base-url", server.url, "--out", "free", exits=0)
        paid = server.requests
        done = tiltmeter(RUN, "200", *CONSTRAINED, "--base-url", server.url, "--out", "run", exits=0)
        assert server.requests == paid + 200, "free answers are looked up, not requested"
    refused = [
        (pl.read_parquet(tmp_path / run / "measures.parquet")["outcome"] == "refused").sum() / 2
        for run in ("run", "free")
    ]
    sentences = refusals_in(tmp_path / "run")
    assert len(sentences) == (constrained != free)
    for sentence in sentences:
        message = (
            f"{refused[0]:.0f}% of 200 constrained answers are refusals, "
            f"and {refused[1]:.0f}% of 200 free answers"
        )
        assert message in sentence
        assert message in " ".join(done.stdout.split())
    gate = tiltmeter(
        "gate", "run", "--fail-on-caveat", "constrained-refusals", "--allow-ungraded", "--allow-undecided"
    )
    assert ("constrained-refusals" in gate.stdout) == bool(sentences)


def test_only_prompts_with_answers_of_both_kinds_are_compared(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    with refusing(0, 60) as server:
        tiltmeter(RUN, "60", "--base-url", server.url, "--out", "free", exits=0)
        tiltmeter(RUN, "200", *CONSTRAINED, "--base-url", server.url, "--out", "run", exits=0)
    answers = [
        set(pl.read_parquet(tmp_path / run / "design.parquet")["prompt_id"]) for run in ("run", "free")
    ]
    both = len(answers[0] & answers[1])
    (sentence,) = refusals_in(tmp_path / "run")
    assert f"0% of {both} constrained answers are refusals" in sentence
    assert f"of {both} free answers to the same prompts" in sentence


@pytest.mark.parametrize("share", [50, 0])
def test_without_free_answers_refusals_are_not_compared(
    tiltmeter: Tiltmeter, tmp_path: Path, share: int
) -> None:
    with refusing(share) as server:
        tiltmeter(RUN, "200", *CONSTRAINED, "--base-url", server.url, "--out", "run", exits=0)
    refused = (pl.read_parquet(tmp_path / "run" / "measures.parquet")["outcome"] == "refused").sum() / 200
    (sentence,) = refusals_in(tmp_path / "run")
    assert sentence.startswith(
        f"compatible/m: refusals (direct {refused:.0%} of 200 constrained answers) are not compared"
    )
    assert (
        "which the response cache does not contain: run the same command without -P answers=constrained"
        in sentence
    )
    done = tiltmeter(
        "analyse run/responses.parquet --study genderbench/direct --limit 200 -P wording=plain --out again",
        *CONSTRAINED,
    )
    (analysed,) = refusals_in(tmp_path / "again")
    assert "which these files do not contain: analyse free answers of the model" in analysed
    assert "run the same command" not in analysed
    assert done.returncode == 0, done.stderr
    assert analysed in " ".join(tiltmeter("show again").stdout.split())


def test_parts_without_free_answers_are_named_in_one_sentence(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text("study: genderbench\nparts: [direct, dreaddit]\n")
    with refusing(0) as server:
        command = (
            "run two.yaml -m compatible/m --display none --limit 6 --out run",
            *CONSTRAINED,
            "--base-url",
            server.url,
        )
        tiltmeter(*command, exits=0)
    (sentence,) = refusals_in(tmp_path / "run")
    assert sentence.startswith(
        "compatible/m: refusals (direct 0% of 6, dreaddit 0% of 36 constrained answers) are not compared"
    )


@pytest.mark.parametrize("refused", [0, 1])
def test_few_prompts_are_a_caveat_if_some_are_refused(
    tiltmeter: Tiltmeter, tmp_path: Path, refused: int
) -> None:
    """Ten prompts cannot exclude a difference of 10 points, even if nothing is refused."""
    prompts: list[str] = []

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        if allowed_in(request):
            return json.dumps({"answer": "no"})
        prompts.append(prompt_of(request))
        return "I cannot answer that question." if prompt_of(request) in prompts[:refused] else "No."

    with MisbehavingServer(script) as server:
        tiltmeter(RUN, "10", "--base-url", server.url, "--out", "free", exits=0)
        tiltmeter(RUN, "10", *CONSTRAINED, "--base-url", server.url, "--out", "run", exits=0)
    sentences = refusals_in(tmp_path / "run")
    assert len(sentences) == refused
    for sentence in sentences:
        assert (
            "0% of 10 constrained answers are refusals, "
            "and 10% of 10 free answers to the same prompts (-10 points, 95%"
        ) in sentence


OWN_PROBE = """
from tiltmeter.probes._genderbench.direct import PROBE

class Own(type(PROBE)):
    name = "own"

    def read(self, answers):
        if answers["answer"].str.contains("boom").any():
            raise ValueError("no number\\nin 'boom'")
        return super().read(answers)
"""
OWN_WORDINGS = """
own:
  plain:
    prompt: 'Is this statement true? "{statement}" Answer with "yes" or "no".'
"""


def test_free_answers_that_cannot_be_read_do_not_end_the_run(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_PROBE)
    (tmp_path / "wordings.yaml").write_text(OWN_WORDINGS)

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        return json.dumps({"answer": "no"}) if allowed_in(request) else "boom"

    with MisbehavingServer(script) as server:
        command = ("run mine.py:Own -m compatible/m --display none --limit 20 --base-url", server.url)
        tiltmeter(*command, "--out", "free", exits=3)
        tiltmeter(*command, *CONSTRAINED, "--out", "run", exits=0)
    run = tm.load(tmp_path / "run")
    assert run.problems == []
    assert run.finding("fail_rate").estimate == 0.0
    (sentence,) = refusals_in(tmp_path / "run")
    assert "which could not be read (ValueError: no number in 'boom')" in sentence


def test_a_part_shows_the_sentences_about_it(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text("study: genderbench\nparts: [direct, dreaddit]\n")

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        allowed = allowed_in(request)
        return json.dumps({"answer": "no"}) if allowed and "statement" in prompt_of(request) else "No."

    with MisbehavingServer(script) as server:
        tiltmeter(
            "run two.yaml -m compatible/m --display none --limit 6 --out run",
            *CONSTRAINED,
            "--base-url",
            server.url,
            exits=0,
        )
    measures = pl.read_parquet(tmp_path / "run" / "measures.parquet")
    free = dict(measures.filter(~pl.col.constrained).group_by("part").len().iter_rows())
    assert free["dreaddit"]
    for part in ("direct", "dreaddit"):
        printed = " ".join(tiltmeter("show run --part", part, exits=0).stdout.split())
        count = free.get(part, 0)
        assert (f"{count} answers were not constrained" in printed) == bool(count)
        assert ("are not compared" in printed) == (count < measures.filter(part=part).height)
