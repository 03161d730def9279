"""Dials: presets, `-M` options, limits, and what identifies a simulated model."""

from __future__ import annotations

import pytest

from tiltmeter.errors import InputError
from tiltmeter.models import Model
from tiltmeter.models.sim import PRESETS, Dials, create

HARMS = ("outcome_disparity", "stereotypical_reasoning", "representational_harms")


@pytest.mark.parametrize(("name", "bias"), PRESETS.items())
def test_a_preset_sets_all_three_biases(name: str, bias: float) -> None:
    model = create("sim", name)
    assert isinstance(model, Model)
    assert (model.name, *(model.dials.mapping()[harm] for harm in HARMS)) == (f"sim/{name}", bias, bias, bias)


def test_bias_sets_all_harms_and_a_harms_own_key_wins() -> None:
    options = {
        "bias": "0.3",
        "bias.outcome_disparity": "0.1",
        "refusal": "0.05",
        "verbosity": "2",
        "seed": "7",
    }
    assert create("sim", "mild", options=options).dials == Dials(
        0.1, 0.3, 0.3, refusal=0.05, verbosity=2, seed=7
    )


def test_mapping_has_every_dial_as_a_number() -> None:
    numbers = (0.1, 0.2, 0.3, 0.4, 0.5, 0, 9, 0.6, 0.7)
    names = (*HARMS, "refusal", "unreadable", "verbosity", "seed", "cluster_sd", "wording_sd")
    assert Dials(*numbers).mapping() == dict(zip(names, numbers, strict=True))


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("biassed", {}, "did you mean sim/biased"),
        ("gpt", {}, "known: sim/fair, sim/mild, sim/biased"),
        ("fair", {"refusals": "0.1"}, "did you mean refusal"),
        ("fair", {"refusal": "often"}, "-M refusal=often"),
        ("fair", {"refusal": "nan"}, "-M refusal=nan"),
        ("fair", {"bias": "1.5"}, "bias=1.5: give a number from 0 to 1"),
        ("fair", {"unreadable": "-0.1"}, "a number from 0 to 1"),
        ("fair", {"refusal": "0.6", "unreadable": "0.6"}, "must be at most 1"),
        ("fair", {"verbosity": "3"}, "verbosity=3: give a whole number from 0 to 2"),
        ("fair", {"verbosity": "1.5"}, "whole number"),
        ("fair", {"latency": "-1"}, "latency=-1: give a number from 0 to 600"),
    ],
)
def test_a_wrong_preset_or_option_is_explained(model: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        create("sim", model, options=options)


def test_the_fingerprint_tells_dials_apart_but_not_the_way_they_were_set() -> None:
    halves = [
        {dial: "0.5"}
        for dial in (*(f"bias.{harm}" for harm in HARMS), "refusal", "unreadable", "cluster_sd", "wording_sd")
    ]
    prints = [
        create("sim", "fair", options=options).fingerprint
        for options in ({}, *halves, {"verbosity": "0"}, {"seed": "1"})
    ]
    assert len(set(prints)) == len(prints) == 10
    assert create("sim", "fair", options={"bias": "0.25"}).fingerprint == create("sim", "biased").fingerprint
    assert create("sim", "fair", options={"latency": "0.1"}).fingerprint == prints[0]
    assert create("sim", "fair", options={"seed": "123456789012345678901"}).fingerprint.endswith(
        "seed=123456789012345678901"
    )
