"""A definition that changes gets a new version; a changed default does not reach a published definition."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import polars as pl
import pytest

from support.fingerprints import RESULTS, contents, digests, faults, numbers_of, recorded
from support.recorded import recorded_findings
from tiltmeter.associations import _definitions as association_definitions
from tiltmeter.benchmarks import _definitions as definitions
from tiltmeter.probes import _definitions as probe_definitions, _metrics as metrics
from tiltmeter.probes._definitions import DEFAULT, GENDERBENCH
from tiltmeter.probes._estimates import estimate_by_percentiles
from tiltmeter.probes._genderbench import business_vocabulary, diversity_med_qa
from tiltmeter.probes._listing import PROBES, load_probe
from tiltmeter.probes._metrics import Band
from tiltmeter.probes._suite import SUITE
from tiltmeter.readers import _genderbench as genderbench
from tiltmeter.runs._definitions import DEFINITIONS

Patch = pytest.MonkeyPatch


def test_every_definition_equals_its_recorded_fingerprint() -> None:
    components = contents()
    assert {label.partition("@")[0] for label in components} == set(DEFINITIONS.names())
    assert faults(components, recorded()) == []


def test_a_new_version_of_a_definition_needs_a_recorded_fingerprint() -> None:
    components = contents()
    label = next(iter(components))
    (sentence,) = faults(components, {name: record for name, record in recorded().items() if name != label})
    assert (
        sentence
        == f"{label} has no recorded fingerprint: PYTHONPATH=tests python tests/definitions/record.py"
    )


def test_changed_numbers_on_the_same_responses_need_a_new_version() -> None:
    """Versions 3 and 4 of the default definition of associations differ only in their q-values."""
    label = "associations/default@6"
    components = contents()[label]
    name = next(name for name in components if name.startswith(f"{RESULTS}gender on the responses"))
    findings = recorded_findings("gender")
    same = findings.with_columns(pl.col("estimate") * (1 + 1e-13))
    assert faults({label: {**components, name: numbers_of(same)}}, recorded()) == []
    changed = findings.with_columns(q=pl.when(pl.col("metric") == "association").then("p").otherwise("q"))
    (sentence,) = faults({label: {**components, name: numbers_of(changed)}}, recorded())
    assert f"{label} has changed in: {name}. " in sentence
    assert "give the definition a new version" in sentence


def test_results_on_new_responses_are_recorded_beside_the_former_ones() -> None:
    label = "associations/default@6"
    components = {
        name: content
        for name, content in contents()[label].items()
        if not name.startswith(f"{RESULTS}gender on")
    }
    name = f"{RESULTS}gender on the responses 00000000"
    (sentence,) = faults({label: {**components, name: "other numbers"}}, recorded())
    assert sentence.startswith(
        f"{label} has no recorded {name}. If only the responses are new, record the results on them: "
    )


def wider(metric: metrics.Metric) -> metrics.Metric:
    """The same metric with the whole range healthy by default."""
    return dataclasses.replace(metric, bands=(Band("healthy", metric.low, metric.high),))


def change_a_tier(patch: Patch) -> None:
    probe = load_probe("gest")
    patch.setattr(type(probe), "metrics", (wider(probe.metrics[0]), *probe.metrics[1:]))


def change_a_published_tier(patch: Patch) -> None:
    probe = load_probe("gest")
    first = probe.metrics[0]
    published = (Band("healthy", first.low, 0.5), Band("critical", 0.5, first.high))
    patch.setattr(
        type(probe), "metrics", (dataclasses.replace(first, published_bands=published), *probe.metrics[1:])
    )


def change_an_exclusion(patch: Patch) -> None:
    patch.setattr(diversity_med_qa, "SEX_SPECIFIC", "pregnan")


def change_excluded_words(patch: Patch) -> None:
    patch.setattr(business_vocabulary, "ORDINARY", {"more"})


def change_a_published_pattern(patch: Patch) -> None:
    patch.setattr(genderbench, "_TEXT_END", ".")


def change_the_estimate(patch: Patch) -> None:
    changed = dataclasses.replace(probe_definitions.GENDERBENCH, estimate=estimate_by_percentiles)
    patch.setattr(probe_definitions, "GENDERBENCH", changed)


def change_the_score(patch: Patch) -> None:
    rules = dataclasses.replace(association_definitions.BADF_CODE, score_over="lists")
    patch.setattr(association_definitions, "BADF_CODE", rules)


def change_the_comparisons(patch: Patch) -> None:
    changed = dataclasses.replace(definitions.SAGED, formulas=definitions.DEFAULT.formulas)
    patch.setattr(definitions, "SAGED", changed)


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (change_a_tier, {"probes/default": "tiers"}),
        (change_a_published_tier, {"probes/genderbench": "tiers"}),
        (change_an_exclusion, {"probes/default": "exclusions"}),
        (change_excluded_words, {"probes/default": "exclusions"}),
        (change_a_published_pattern, {"probes/genderbench": "readers"}),
        (change_the_estimate, {"probes/genderbench": "formulas"}),
        (change_the_score, {"associations/badf-code": "rules"}),
        (change_the_comparisons, {"benchmarks/saged": "formulas"}),
    ],
)
def test_a_change_of_a_definition_is_reported_for_its_component_only(
    change: Callable[[Patch], None], changed: dict[str, str], monkeypatch: Patch
) -> None:
    before = {label: digests(components) for label, components in contents().items()}
    change(monkeypatch)
    sentences = faults(contents(), before)
    assert len(sentences) == len(changed)
    for sentence, (definition, component) in zip(sentences, changed.items(), strict=True):
        assert sentence.startswith(definition)
        assert f" has changed in: {component}. " in sentence
        assert "give the definition a new version in src/tiltmeter/" in sentence


@pytest.mark.parametrize("probe", SUITE)
def test_a_changed_default_tier_does_not_change_the_published_tiers(probe: str) -> None:
    graded = [metric for metric in PROBES.load(probe).metrics if metric.bands]
    assert graded
    for metric in graded:
        assert metric.published_bands, (
            f"{probe}/{metric.name} must state its published tiers, also if they equal the default ones"
        )
        changed = wider(metric)
        assert DEFAULT.bands(changed) != DEFAULT.bands(metric)
        assert GENDERBENCH.bands(changed) == GENDERBENCH.bands(metric)


def test_the_distance_of_a_metric_has_separate_published_tiers() -> None:
    signed = metrics.difference(
        "d",
        "A difference.",
        bands=metrics.two_sided(0.1, 0.2, 0.3),
        published_bands=metrics.two_sided(0.4, 0.5, 0.6),
    )
    _, distance = metrics.with_distance(signed, "abs_d", "Its distance.")
    assert [band.high for band in distance.bands] == [0.1, 0.2, 0.3, 1.0]
    assert [band.high for band in distance.published_bands] == [0.4, 0.5, 0.6, 1.0]


def test_a_probe_outside_the_suite_has_the_same_tiers_under_every_definition() -> None:
    metric = metrics.difference("d", "A difference.", bands=metrics.two_sided(0.1, 0.2, 0.3))
    assert GENDERBENCH.bands(metric) == DEFAULT.bands(metric) == metric.bands
