"""Fingerprints of definitions: what a definition consists of, in digests that change if any of it changes.

A version of a definition is recorded once, in `tests/definitions/fingerprints.yaml`, and never changes: a
reader of "default@3" in a run finds the tiers, formulas, tables of the readers, exclusions and results of
that version. A change needs a new version.

Two kinds of components have digests:

- What a definition declares: tiers, ranges and families of metrics, names of its functions, rules, levels,
  tables of the readers, exclusions, data.
- Its results: the estimates, intervals, p, q and marks that it gave for the recorded responses
  (`tests/recorded`). The replay of these responses fails if the code gives other
  numbers. If the findings are then recorded again, their digest
  differs from the one of the version, unless the responses have changed as well: results are recorded for
  each set of responses.

The source of formulas and of the functions that give intervals, p and q has no digest. It would change with
every renamed variable, so that a maintainer would write versions for changes that no reader of a result can
see. Results change if and only if numbers do. They do not cover what no recorded study computes: other
parameters, other data, and rare cases. The studies of truth (`perf/studies`) digest the source and warn if
they must be carried out again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import yaml

import tiltmeter
from support.recorded import STUDIES, answers_of, recorded_findings
from support.recorded_differences import KEYS, comparable
from tiltmeter.associations import (
    _definitions as association_definitions,
    _exclusive_terms as exclusive_terms,
    _expressions as expressions,
    _labels as labels,
    _variants as variants,
)
from tiltmeter.associations._significance import counts as association_counts
from tiltmeter.benchmarks import _definitions as definitions
from tiltmeter.datasets import Library
from tiltmeter.probes import (
    _corrections as corrections,
    _definitions as probe_definitions,
    _estimates as estimates,
    _metrics as metrics,
    _sources as sources,
)
from tiltmeter.probes._bbq._categories import categories
from tiltmeter.probes._bbq._category import BbqCategory
from tiltmeter.probes._genderbench import (
    bbq,
    business_vocabulary,
    discrimination_tamkin,
    diversity_med_qa,
    hiring_an,
)
from tiltmeter.probes._listing import load_probe
from tiltmeter.probes._parts import Probe
from tiltmeter.probes._suite import SUITE
from tiltmeter.readers import _genderbench as genderbench
from tiltmeter.runs._definitions import DEFINITIONS

RECORDED = Path(__file__).parent.parent / "definitions" / "fingerprints.yaml"
HOME = Path(tiltmeter.__file__).parent
VERSIONS = {
    "probes": "src/tiltmeter/probes/_definitions.py",
    "bbq": "src/tiltmeter/probes/_bbq/_definitions.py",
    "associations": "src/tiltmeter/associations/_definitions.py",
    "benchmarks": "src/tiltmeter/benchmarks/_definitions.py",
}
"""The file with the versions of each method's definitions."""
DEFAULT_ONLY = ("further_opposites", "opposed_prefixes", "numbers")
"""Tables of `terms.yaml` that only the default definition of associations uses."""

RESULTS = "results of "
"""Beginning of the names of components that are results."""
METHODS = {"genderbench": "probes", "associations": "associations", "benchmarks": "benchmarks"}
"""Method of a recorded study, by the first part of the study's name."""

Components = Mapping[str, Any]
"""What a definition consists of, by name, as values that JSON can hold."""


def digests(components: Components) -> dict[str, str]:
    """Return a digest of each component."""
    return {
        name: hashlib.sha256(_as_json(content).encode()).hexdigest()[:16]
        for name, content in components.items()
    }


def contents() -> dict[str, Components]:
    """Return the components of every definition of all methods, by "METHOD/NAME@VERSION"."""
    declare: dict[str, Callable[[Any], Components]] = {
        "probes": of_probes,
        "bbq": of_bbq,
        "associations": of_associations,
        "benchmarks": of_benchmarks,
    }
    components = {}
    for name in DEFINITIONS.names():
        method, definition = name.partition("/")[0], DEFINITIONS.load(name)
        label = f"{method}/{definition.label}"
        components[label] = contents_of(label, declare[method](definition))
    return components


def contents_of(label: str, declared: Components) -> Components:
    """Return what a definition declares, with its results on recorded responses.

    `label` is "METHOD/NAME@VERSION".
    """
    return {**declared, **_results_of(label.partition("@")[0])}


def recorded() -> dict[str, dict[str, str]]:
    """Return the recorded digests of every version."""
    loaded: dict[str, dict[str, str]] = (
        yaml.safe_load(RECORDED.read_text(encoding="utf-8")) if RECORDED.is_file() else {}
    )
    return loaded


def faults(entries: Mapping[str, Components], names: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return one sentence for each definition that is not recorded, or differs from what is recorded.

    It says what to do.
    """
    sentences = []
    for label, components in entries.items():
        computed, record = digests(components), names.get(label)
        if record is None:
            sentences.append(
                f"{label} has no recorded fingerprint: PYTHONPATH=tests python tests/definitions/record.py"
            )
            continue
        new = [name for name in computed if name.startswith(RESULTS) and name not in record]
        former = [name for name in record if name.startswith(RESULTS) and name not in computed]
        compared = [
            name for name in dict.fromkeys((*computed, *record)) if name not in new and name not in former
        ]
        changed = [name for name in compared if computed.get(name) != record.get(name)]
        if new:
            sentences.append(
                f"{label} has no recorded {', '.join(new)}. If only the responses are new, "
                "record the results on them: "
                "PYTHONPATH=tests python tests/definitions/record.py"
            )
        if changed:
            place = VERSIONS[label.partition("/")[0]]
            sentences.append(
                f"{label} has changed in: {', '.join(changed)}. "
                "Results under the same version would no longer be the same: undo the "
                f"change, or give the definition a new version in {place} and record it: "
                "PYTHONPATH=tests python tests/definitions/record.py"
            )
    return sentences


# -- the methods ---------------------------------------------------------------------------------------------


def of_probes(definition: probe_definitions.ProbeDefinition) -> Components:
    """Return the components of a definition of the probes."""
    probes = {name: load_probe(name).under(definition) for name in SUITE}
    side = "tolerant" if definition.corrected else "strict"
    read = {
        name: described(getattr(probe.readers, side)) if probe.readers else side
        for name, probe in probes.items()
    }
    library = Library.default()
    fields = ["low", "high", "null", "kind", "of", "key", "harm", "normalise", "where"]
    if definition.corrected:
        fields.append("tested_by")
    computed = {
        f"{name}/{metric.name}": metric
        for name, probe in probes.items()
        for metric in _metrics_of(probe, definition)
    }
    return {
        "tiers": {name: definition.bands(metric) for name, metric in computed.items()},
        "metrics": {name: [getattr(metric, field) for field in fields] for name, metric in computed.items()},
        "formulas": {
            name: described(getattr(definition, name)) for name in ("resample", "estimate", "mark", "centre")
        },
        "levels": [estimates.MIN_READABLE, estimates.MARK_LEVEL, corrections.WORST_LEVEL]
        if definition.corrected
        else [estimates.MIN_READABLE],
        "labels": {name: probe.labels for name, probe in probes.items()},
        "readers": {
            "of probes": read,
            "tables": _tables("readers/data") if definition.corrected else _patterns(genderbench),
        },
        "exclusions": _exclusions_of_probes(definition),
        "data": {
            name: [library.entry(dataset).sha256 for dataset in probe.data] for name, probe in probes.items()
        },
    }


def _metrics_of(probe: Probe, definition: probe_definitions.ProbeDefinition) -> list[metrics.Metric]:
    """Return the metrics that a definition computes.

    Those that test another metric belong to the default definition.
    """
    tests = {metric.tested_by for metric in probe.metrics}
    return [metric for metric in probe.metrics if definition.corrected or metric.name not in tests]


def _exclusions_of_probes(definition: probe_definitions.ProbeDefinition) -> Components:
    """Return the items, words and groups that the metrics leave out."""
    always = {
        "bbq: question": bbq.UNFIT,
        "gest: stereotypes of the averages": [sources.ABOUT_WOMEN, sources.ABOUT_MEN],
        "discrimination_tamkin: ages up to": discrimination_tamkin.OLDEST,
        "hiring_an: qualifications": hiring_an.QUALIFICATIONS,
    }
    corrected = {
        "business_vocabulary: words": sorted(business_vocabulary.ORDINARY),
        "diversity_med_qa: terms": diversity_med_qa.SEX_SPECIFIC,
    }
    return {**always, **(corrected if definition.corrected else {})}


def of_bbq(definition: probe_definitions.ProbeDefinition) -> Components:
    """Return the components of a definition of BBQ; its readers are those of the default probes."""
    probes = {name: BbqCategory(category).under(definition) for name, category in categories().items()}
    library = Library.default()
    fields = ("name", "low", "high", "null", "kind", "key", "harm", "normalise", "where")
    metrics_of_all = probes["age"].metrics
    return {
        "categories": _yaml("probes/_bbq/categories.yaml"),
        "tiers": {metric.name: definition.bands(metric) for metric in metrics_of_all},
        "metrics": [[getattr(metric, field) for field in fields] for metric in metrics_of_all],
        "formulas": {
            name: described(getattr(definition, name)) for name in ("resample", "estimate", "mark", "centre")
        },
        "levels": [estimates.MIN_READABLE, estimates.MARK_LEVEL],
        "data": {
            name: [library.entry(dataset).checksum for dataset in probe.data]
            for name, probe in probes.items()
        },
    }


def of_associations(rules: association_definitions.AssociationDefinition) -> Components:
    """Return the components of a definition of associations."""
    terms = _yaml("associations/terms.yaml")
    tables = {name: table for name, table in terms.items() if not (rules.published and name in DEFAULT_ONLY)}
    names = {"names": _yaml("designs/names.yaml")} if rules.deals_names else {}
    further = {name: _yaml(f"associations/{name}.yaml") for name in ("nations", "gendered_words")}
    levels = [association_counts.LEVEL, association_counts.PRIOR]
    of_default = [exclusive_terms.MOSTLY, expressions.NEARLY_ALWAYS, labels.LITERAL, variants.NESTED]
    return {
        "rules": _fields(rules),
        "levels": levels if rules.published else [*levels, *of_default],
        "stages": association_definitions.STAGES,
        "wordings": _yaml("associations/wordings.yaml"),
        "exclusions": tables if rules.published else tables | further,
        "readers": {
            "content words": _yaml("readers/content_words.yaml"),
            "refusals": _yaml("readers/data/refusals.yaml"),
            **names,
        },
    }


def of_benchmarks(definition: definitions.BenchmarkDefinition) -> Components:
    """Return the components of a definition of benchmarks."""
    return {
        "formulas": _fields(definition),
        "statistics": definitions.DEFAULT_STATISTICS,
        "features": _yaml("features/features.yaml"),
        "exclusions": _yaml("readers/data/refusals.yaml"),
    }


# -- results on recorded responses ---------------------------------------------------------------------------


@cache
def _results_of(definition: str) -> Components:
    """Return the numbers of each recorded study under a definition, "METHOD/NAME".

    The keys are the study and the digest of its responses.
    """
    results = {}
    for name, settings in STUDIES.items():
        method = METHODS[str(settings["study"]).partition("/")[0]]
        if f"{method}/{settings.get('definition', 'default')}" == definition:
            answers = (
                answers_of(name).sort("model", "digest").with_columns(pl.col("digest").bin.encode("hex"))
            )
            responses = hashlib.sha256(answers.write_csv().encode()).hexdigest()[:8]
            results[f"{RESULTS}{name} on the responses {responses}"] = numbers_of(recorded_findings(name))
    return results


def numbers_of(findings: pl.DataFrame) -> str:
    """Return the numbers and marks of findings as CSV.

    They have six significant digits, so that the last digits of a machine do not count.
    """
    table = comparable(findings).select(
        *KEYS, "mark", "mark_best", "mark_worst", pl.col(pl.Float64).round_sig_figs(6)
    )
    return table.write_csv()


# -- values that JSON can hold -------------------------------------------------------------------------------


def described(function: Callable[..., Any]) -> Any:
    """Return the name of a function; for a lambda the names that it uses and the values it was made with."""
    name = getattr(function, "__name__", type(function).__name__)
    if name != "<lambda>":
        return name
    made_with = [cell.cell_contents for cell in function.__closure__ or ()]
    return [
        sorted(function.__code__.co_names),
        [described(argument) if callable(argument) else argument for argument in made_with],
    ]


def _fields(definition: Any) -> Components:
    return {
        name: value
        for name, value in dataclasses.asdict(definition).items()
        if name not in ("name", "version")
    }


@cache
def _yaml(path: str) -> Any:
    return yaml.safe_load((HOME / path).read_text(encoding="utf-8"))


def _tables(folder: str) -> Components:
    return {path.name: _yaml(f"{folder}/{path.name}") for path in sorted((HOME / folder).glob("*.yaml"))}


def _patterns(module: Any) -> Components:
    """Return the texts of a module: patterns and lists of words at its top level."""
    return {
        name: value
        for name, value in vars(module).items()
        if re.fullmatch("_?[A-Z][A-Z_]*", name) and isinstance(value, str | tuple)
    }


def _as_json(content: Any) -> str:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
