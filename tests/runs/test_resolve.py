"""What a user may write for a study, and what is said when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tiltmeter.errors import InputError
from tiltmeter.runs import parse_limit, resolve


@pytest.mark.parametrize(("text", "value"), [("50", 50), ("0-99", (0, 99)), ("7-7", (7, 7)), ("0.1", 0.1), ("1.0", 1.0)])
def test_limits(text: str, value: object) -> None:
    assert parse_limit(text) == value


@pytest.mark.parametrize("text", ["", "0", "-5", "9-3", "1.5", "0.0", "ten", "1e3", "3-x"])
def test_wrong_limits_are_named(text: str) -> None:
    with pytest.raises(InputError, match="is not a number of items"):
        parse_limit(text)


def test_resolved_study_file_gives_the_same_study(tmp_path: Path) -> None:
    given = {"limit": "0-9", "repeats": 2, "seed": 7, "params": {"wording": "all", "definition": "genderbench"}}
    first = resolve("genderbench", settings=given, sampling={"temperature": 0.5, "stop": "END"})
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(first.as_document()))
    assert resolve(str(path)) == first
    assert first.settings.definition == "genderbench"


def test_a_file_may_choose_parts_and_flags_win_over_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("study: genderbench\nparts: [gest, direct]\nseed: 5\nsampling: {max_tokens: 20}\n")
    resolved = resolve(str(path), settings={"seed": 9})
    assert [part.name for part in resolved.study.parts] == ["gest", "direct"]
    assert (resolved.settings.seed, resolved.sampling.max_tokens, resolved.sampling.temperature) == (9, 20, 1.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("study: genderbench\nseeds: 3\n", "unknown key 'seeds': did you mean seed"),
        ("study: [", "line 1"),
        ("limit: 3\n", "needs the key 'study'"),
        ("study: genderbench\nseed: -1\n", "seed: expected at least 0"),
        ("study: genderbench\nseed: yes\n", "seed: expected a whole number"),
        ("study: genderbench\nlevel: 2\n", "level: expected a confidence level"),
        ("study: genderbench\nparts: [gset]\n", "unknown part 'gset' of genderbench: did you mean gest"),
        ("study: genderbench\nsampling: {temprature: 1}\n", "unknown key 'temprature': did you mean temperature"),
        ("study: genderbench\nsampling: {top_p: 3}\n", "top_p: expected 0 to 1"),
        ("study: genderbench\nparams: {wordings: all}\n", "unknown parameter 'wordings'"),
        ("study: genderbnech\n", "did you mean genderbench"),
        ("study: genderbench/gst\n", "did you mean gest"),
    ],
)
def test_mistakes_in_a_study_file_are_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        resolve(str(path))
    assert said in str(error.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the study file"):
        resolve(str(tmp_path / "none.yaml"))
