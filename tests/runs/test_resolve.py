"""Studies as users write them, and messages about mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tiltmeter.designs.limits import ItemLimit
from tiltmeter.errors import InputError
from tiltmeter.probes._definitions import GENDERBENCH
from tiltmeter.runs import resolve


@pytest.mark.parametrize(
    ("text", "value"), [("50", 50), ("0-99", (0, 99)), ("7-7", (7, 7)), ("0.1", 0.1), ("1.0", 1.0)]
)
def test_limits_are_numbers_ranges_or_shares(text: str, value: object) -> None:
    assert ItemLimit.parse(text).selection == value


@pytest.mark.parametrize("text", ["", "0", "-5", "9-3", "1.5", "0.0", "ten", "1e3", "3-x"])
def test_wrong_limits_are_named(text: str) -> None:
    with pytest.raises(InputError, match="is not a number of items"):
        ItemLimit.parse(text)


def test_the_file_of_a_resolved_study_gives_the_same_study(tmp_path: Path) -> None:
    settings = {
        "limit": "0-9",
        "repeats": 2,
        "seed": 7,
        "params": {"wording": "all", "definition": "genderbench"},
    }
    first = resolve("genderbench", settings=settings, sampling={"temperature": 0.5, "stop": "END"})
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(first.as_document()))
    assert resolve(str(path)) == first
    assert first.settings.definition is GENDERBENCH


def test_a_study_file_chooses_parts_and_options_override_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("study: genderbench\nparts: [gest, direct]\nseed: 5\nsampling: {max_tokens: 20}\n")
    resolved = resolve(str(path), settings={"seed": 9})
    assert [part.name for part in resolved.study.parts] == ["gest", "direct"]
    assert (resolved.settings.seed, resolved.sampling.max_tokens, resolved.sampling.temperature) == (
        9,
        20,
        1.0,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("study: genderbench\nseeds: 3\n", "unknown key 'seeds': did you mean seed"),
        ("study: [", "line 1"),
        ("study: 2020-13-45\n", "a value cannot be read"),
        ("study: " + "[" * 5_000, "a value cannot be read"),
        ("limit: 3\n", "needs the key 'study'"),
        ("study: genderbench\nseed: -1\n", "seed: expected a whole number of at least 0, found -1"),
        ("study: genderbench\nseed: yes\n", "seed: expected a whole number"),
        ("study: genderbench\nlevel: 2\n", "level: expected a confidence level"),
        ("study: genderbench\nparts: [gset]\n", "unknown part 'gset' of genderbench: did you mean gest"),
        (
            "study: genderbench\nsampling: {temprature: 1}\n",
            "unknown key 'temprature': did you mean temperature",
        ),
        ("study: genderbench\nsampling: {top_p: 3}\n", "top_p: expected 0 to 1"),
        ("study: genderbench\nparams: {wordings: all}\n", "unknown parameter 'wordings'"),
        (
            "study: genderbench\nsampling: {extra: {api_key: sk-1}}\n",
            "sampling.extra.api_key looks like a key",
        ),
        ("study: genderbnech\n", "did you mean genderbench"),
        ("study: genderbench/gst\n", "did you mean gest"),
        ("study: 5\n", "study: expected the name of a study such as genderbench, found 5"),
        ("- study\n", "needs the key 'study'"),
        ("study: genderbench\n3: 4\n", "unknown key '3'"),
        ("study: genderbench\nparams: [a]\n", "params: expected a mapping of names"),
        (
            "study: genderbench\nparams: 5\n",
            "params: expected a mapping of names to texts or numbers such as {wording: all}, found 5",
        ),
        ("study: genderbench\nparams: {wording: [a]}\n", "params: expected a mapping of names"),
        (
            "study: genderbench\nsampling: 5\n",
            "sampling: expected a mapping such as {temperature: 0.5}, found 5",
        ),
        ("study: genderbench\nsampling: {stop: 3}\n", "sampling.stop: expected a text or a list of texts"),
        ("study: genderbench\nsampling: {stop: [3]}\n", "sampling.stop: expected a text or a list of texts"),
        (
            "study: genderbench\nsampling: {extra: 3}\n",
            "sampling.extra: expected a mapping of what JSON can hold",
        ),
        (
            "study: genderbench\nsampling: {extra: {a: .nan}}\n",
            "sampling.extra: expected a mapping of what JSON can hold",
        ),
        (
            "study: genderbench\nsampling: {extra: {a: 2020-01-01}}\n",
            "sampling.extra: expected a mapping of what JSON can hold",
        ),
        ("study: genderbench\nsampling: {temperature: .nan}\n", "sampling.temperature: expected 0 to 10"),
        (
            "study: genderbench\nsampling: {max_tokens: 0}\n",
            "sampling.max_tokens: expected a whole number of at least 1, found 0",
        ),
        (
            "study: genderbench\nparts: 5\n",
            "parts: expected a list of part names such as [gest, direct], found 5",
        ),
        ("study: genderbench\nparts: direct\n", "parts: expected a list of part names"),
        ("study: genderbench\nparts: []\n", "parts: expected a list of part names"),
        ("study: genderbench\nparts: [[1]]\n", "parts: expected a list of part names"),
        ("study: genderbench\nparts: [gest, direct, gest]\n", "parts: 'gest' is listed twice"),
        ("study: genderbench\nsystem_message: [a]\n", "system_message: expected a text, found ['a']"),
        (
            "study: genderbench\nresamples: 100001\n",
            "resamples: expected a whole number from 20 to 100,000, found 100001",
        ),
        ("study: genderbench\nresamples: 19\n", "resamples: expected a whole number from 20"),
        ("study: genderbench\nrepeats: 0\n", "repeats: expected a whole number from 1 to 1,000, found 0"),
        ("study: genderbench\nrepeats: 1001\n", "repeats: expected a whole number from 1 to 1,000"),
        (
            "study: genderbench\nlimit: true\n",
            "limit: expected a number of items (50), a range (0-99), a share (0.1)"
            " or a size (quick), found True",
        ),
        ("study: genderbench\nlimit: [1]\n", "limit: expected a number of items"),
        ("study: genderbench\nlimit: ten\n", "--limit 'ten' is not a number of items"),
        ("study: genderbench\ndefinition: 3\n", "definition: expected the name of a definition"),
    ],
)
def test_mistakes_in_a_study_file_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        resolve(str(path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "sampling", "message"),
    [
        ({"seed": -1}, {}, "seed: expected a whole number of at least 0, found -1"),
        ({"repeats": 0}, {}, "repeats: expected a whole number from 1"),
        ({}, {"temperature": 20.0}, "sampling.temperature: expected 0 to 10, found 20.0"),
        ({}, {"temprature": 1}, "did you mean temperature"),
    ],
)
def test_mistakes_in_settings_and_sampling_are_named(
    settings: dict[str, object], sampling: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError) as error:
        resolve("genderbench", settings=settings, sampling=sampling)
    assert message in str(error.value)


def test_entries_that_a_run_adds_to_its_study_file_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(
        "study: genderbench\nmodels: [{name: sim/mild}]\nresponses: [a.csv]\ninputs: {a.csv: abc}\n"
    )
    assert resolve(str(path)) == resolve("genderbench")
