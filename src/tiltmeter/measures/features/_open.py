"""From the names a user writes to features that are ready to measure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tiltmeter import registry
from tiltmeter._functions import is_function, load_function
from tiltmeter.errors import InputError
from tiltmeter.measures.features._catalogue import FEATURES, Described
from tiltmeter.measures.features._kinds import ByClassifier, ByFunction, ByLexicon, Distance, Feature
from tiltmeter.measures.features._models import Classifies, Encodes
from tiltmeter.registry import did_you_mean

if TYPE_CHECKING:
    pass

__all__ = ["open_features", "outside_feature"]

_UNNAMED = re.compile(r"label_?\d+", re.IGNORECASE)


def open_features(names: Sequence[str], *, encoder: Callable[[str], Encodes], classifier: Callable[[str], Classifies]) -> Sequence[Feature]:
    """The features a user names, in order; their models are opened, so that what cannot be had shows before anything is paid for.

    Parameters
    ----------
    names
        Each one of
        `NAME`, a feature of the catalogue (`sentiment`) or of an outside package (entry point group `tiltmeter.features`);
        `NAME=MODEL`, the same with another model (a folder, or a name of the hub);
        `NAME=MODEL?WANTED=LABEL&...`, where that classifier calls its labels otherwise (`sentiment=folder?positive=LABEL_1&...`);
        `MODULE:FUNCTION` or `NAME=MODULE:FUNCTION`, a function of one text that gives a number or a mapping of numbers by name; under the
        name of a feature of the catalogue it takes its place.
    encoder, classifier
        Open the model of that name.

    Raises
    ------
    InputError
        There is no such feature or function, one is named twice, or a classifier lacks a label that the formula needs. What
        `encoder` and `classifier` raise is passed on.
    """
    opened: list[Feature] = []
    for written in names:
        name, equals, model = written.strip().partition("=")
        if not equals and is_function(name):
            feature: Feature = _own(name.rpartition(":")[2], name, free=False)
        elif equals and is_function(model):
            feature = _own(name, model, free=True)
        elif name in registry.names("features"):
            feature = outside_feature(name, model)
        elif name not in FEATURES:
            known = [*FEATURES, *registry.names("features")]
            raise InputError(f"unknown feature {name!r}: {did_you_mean(name, known)}; your own is written MODULE:FUNCTION")
        elif equals and not model:
            raise InputError(f"{written!r}: after the = the feature needs a model (a folder, or a name of the Hugging Face hub)")
        else:
            feature = _known(FEATURES[name], model, encoder, classifier)
        if any(feature.name == other.name for other in opened):
            raise InputError(f"the feature {feature.name} is named twice: leave one of the two out")
        opened.append(feature)
    return opened


def _known(described: Described, model: str, encoder: Callable[[str], Encodes], classifier: Callable[[str], Classifies]) -> Feature:
    if described.kind == "lexicon":
        if model:
            raise InputError(f"{described.name}={model}: {described.name} uses no model; write {described.name} alone")
        return ByLexicon(described)
    place = model or described.model or ""
    if described.kind == "distance":
        return Distance(described, encoder(place), place)
    place, _, mapped = place.partition("?")
    called = classifier(place)
    return ByClassifier(described, called, _places(described, called, place, _mapping(described, mapped)))


def _mapping(described: Described, written: str) -> Mapping[str, str]:
    """What the classifier calls our labels, from "positive=LABEL_1&negative=LABEL_0"."""
    pairs = [one.partition("=") for one in written.split("&")] if written else []
    for wanted, equals, label in pairs:
        if not equals or not label or wanted not in _wanted(described):
            raise InputError(
                f"{described.name}: {wanted + equals + label!r} after the ? should be written WANTED=LABEL, WANTED being one of "
                + ", ".join(_wanted(described))
            )
    return {wanted: label for wanted, _, label in pairs}


def _wanted(described: Described) -> list[str]:
    return list(dict.fromkeys(label for formula in described.formulas for label in formula.weights))


def _plain(label: str) -> str:
    """A label without what does not matter: case, blanks and marks between words."""
    return re.sub(r"[\W_]+", "_", label.casefold()).strip("_")


def _places(described: Described, classifier: Classifies, place: str, mapped: Mapping[str, str]) -> Mapping[str, int]:
    """Number of the classifier's label for each label the formulas name."""
    labels = list(classifier.labels)
    numbers: dict[str, list[int]] = {}
    for number, label in enumerate(labels):
        numbers.setdefault(_plain(label), []).append(number)
    places: dict[str, int] = {}
    for wanted in _wanted(described):
        names = [mapped[wanted]] if wanted in mapped else [wanted, *described.labels.get(wanted, ())]
        found = sorted({number for name in names for number in numbers.get(_plain(name), [])})
        if len(found) > 1:
            raise InputError(f"{described.name}: the labels {' and '.join(labels[one] for one in found)} of {place} both mean {wanted}")
        if not found:
            raise InputError(_lacking(described, place, labels, names[0], wanted))
        places[wanted] = found[0]
    if shared := next((label for label in labels if [labels[one] for one in places.values()].count(label) > 1), None):
        raise InputError(f"{described.name}: the label {shared} of {place} stands for two different things; name another for one of them")
    return places


def _lacking(described: Described, place: str, labels: Sequence[str], name: str, wanted: str) -> str:
    mapped = f"{described.name}={place}?{'&'.join(f'{one}=LABEL' for one in _wanted(described))}"
    if all(_UNNAMED.fullmatch(label) for label in labels):
        return f"{described.name}: {place} does not say what its labels {', '.join(labels)} mean; say it with {mapped}"
    meant = name if name == wanted else f"{name} (for {wanted})"
    return f"{described.name}: {place} has no label {meant}, only {', '.join(labels)}; use another classifier, or map labels: {mapped}"


def outside_feature(name: str, model: str = "") -> ByFunction:
    """The feature of that name that an outside package brings; raises InputError where it cannot be used."""
    place = registry.reference("features", name)
    if name in FEATURES or not name.isidentifier():
        why = "the catalogue has a feature of that name" if name in FEATURES else "a name has letters, digits and underscores only"
        raise InputError(f"{place} cannot be the feature {name!r}: {why}; rename its entry point")
    if model:
        raise InputError(f"{name}={model}: {name} uses no model; write {name} alone")
    return ByFunction(name, registry.load("features", name), place)


def _own(name: str, place: str, *, free: bool) -> ByFunction:
    """Its name is `free` where it was chosen; else it is the function's, which must not pass for a feature of the catalogue."""
    found = load_function(place)
    if not name.isidentifier() or (name in FEATURES and not free):
        raise InputError(f"{place}: the feature cannot be called {name!r}; write NAME={place}, NAME of letters, digits and underscores")
    return ByFunction(name, found, place)
