"""Every method with a real instruction-tuned model, from prompts to findings, with few short responses."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.comparisons import is_about_missing
from tiltmeter.errors import ProviderError
from tiltmeter.models import Model, create_model
from tiltmeter.probes._listing import PROBES
from tiltmeter.probes._suite import SUITE
from tiltmeter.readers.outcomes import OUTCOMES

pytestmark = [pytest.mark.verify, pytest.mark.real_model]

NAME = "hf/SmolLM2-135M-Instruct"
TOKENS = 16
STORY_TOKENS = 40


@pytest.fixture(scope="module")
def model() -> Model:
    """The model, whose weights are loaded once.

    If it cannot be fetched, the tests are skipped, or fail in CI.
    """
    try:
        return create_model(NAME)
    except ProviderError as error:
        message = f"{NAME} cannot be fetched: {error}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(autouse=True)
def _few_items(workplace: Path) -> Iterator[None]:
    """Run in a folder of its own, and ignore the caveats that results of few items have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tm.Caveat)
        yield


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Any:
    """Print the shares of outcomes of each part, also if the test passes."""

    def show(run: tm.Run) -> None:
        for (part,), rows in run.measures.group_by("part", maintain_order=True):
            shares = {outcome: int((rows["outcome"] == outcome).sum()) / rows.height for outcome in OUTCOMES}
            with capsys.disabled():
                print(
                    f"\n{part}: {rows.height} responses; "
                    + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()),
                    end="",
                )

    return show


def counted_attempts(run: tm.Run) -> dict[str, int]:
    """The attempts of each part that its findings are based on.

    Findings of benchmarks are about one role each, so roles are added.
    """
    of_method = run.findings.filter(~is_about_missing())
    counted = of_method.select("part", "context", attempts=pl.sum_horizontal(OUTCOMES)).drop_nulls("attempts")
    of_contexts = (
        counted.filter(pl.col.context.ne_missing("baseline"))
        .group_by("part", "context")
        .agg(pl.col.attempts.max())
    )
    overall = dict(of_contexts.filter(pl.col.context.is_null()).select("part", "attempts").iter_rows())
    added = dict(of_contexts.group_by("part").agg(pl.col.attempts.sum()).iter_rows())
    return added | overall


def check_accounts(run: tm.Run) -> None:
    """Check that every attempt has one outcome, in the measures and in the findings.

    Findings of a probe count all of its attempts; findings of stories and benchmarks count those of one group
    or role. The exit status is 3 if something is missing.
    """
    attempts = dict(run.design.group_by("part").agg(pl.col.repetitions.sum()).iter_rows())
    measures = run.measures
    assert set(measures["outcome"]) <= set(OUTCOMES)
    assert dict(measures.group_by("part").len().iter_rows()) == attempts
    responses = run.responses
    assert (responses["status"] == "ok").all(), responses.filter(pl.col.status != "ok")
    assert int(responses["answer"].str.len_chars().gt(0).sum()) > 0.9 * responses.height
    assert counted_attempts(run) == attempts
    assert run.exit_code == (3 if run.problems else 0)
    assert all("could be used" in problem for problem in run.problems), run.problems


def test_every_probe_accounts_for_the_attempts_of_a_real_model(model: Model, report: Any) -> None:
    run = tm.run(
        "genderbench", model=model, limit=1, sampling={"max_tokens": TOKENS}, display="none", out="run"
    )
    report(run)
    check_accounts(run)
    assert set(run.measures["part"]) == set(SUITE)
    assert run.report().stat().st_size > 10_000


def test_gender_stories_account_for_the_attempts_of_a_real_model(model: Model, report: Any) -> None:
    sampling = {"max_tokens": STORY_TOKENS}
    run = tm.run("associations/gender", model=model, limit=2, sampling=sampling, display="none", out="run")
    report(run)
    check_accounts(run)


def test_a_benchmark_accounts_for_the_attempts_of_a_real_model(model: Model, report: Any) -> None:
    run = tm.run(
        "benchmarks/g20", model=model, limit=1, sampling={"max_tokens": TOKENS}, display="none", out="run"
    )
    report(run)
    check_accounts(run)


def test_constrained_answers_of_a_real_model_are_allowed_ones(model: Model, report: Any) -> None:
    params = {"answers": "constrained"}
    run = tm.run(
        "genderbench",
        model=model,
        limit=1,
        params=params,
        sampling={"max_tokens": TOKENS},
        display="none",
        out="run",
    )
    report(run)
    check_accounts(run)
    chosen = run.measures.filter(pl.col.constrained.is_not_null())
    assert chosen["constrained"].all()
    assert set(chosen["outcome"]) <= {"answered", "refused"}
    assert set(chosen["part"]) == {name for name in SUITE if PROBES.load(name).allowed_answers}
