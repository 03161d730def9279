"""Features: what classifiers, a lexicon, sentence vectors or a user's function make of a text, and clusters of texts.

A text that cannot be scored is missing and counted, never neutral; every model sees every distinct text once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltmeter.measures.features._catalogue import FEATURES, Column, Described
    from tiltmeter.measures.features._clusters import Clusters, cluster_features
    from tiltmeter.measures.features._kinds import Feature
    from tiltmeter.measures.features._measure import Measured, measure_features
    from tiltmeter.measures.features._open import open_features, outside_feature

__all__ = [
    "FEATURES",
    "Clusters",
    "Column",
    "Described",
    "Feature",
    "Measured",
    "cluster_features",
    "measure_features",
    "open_features",
    "outside_feature",
]

_MODULES = {
    **dict.fromkeys(("FEATURES", "Column", "Described"), "_catalogue"),
    **dict.fromkeys(("Clusters", "cluster_features"), "_clusters"),
    "Feature": "_kinds",
    **dict.fromkeys(("Measured", "measure_features"), "_measure"),
    **dict.fromkeys(("open_features", "outside_feature"), "_open"),
}


def __getattr__(name: str) -> Any:
    # Lazily: a study that is only listed must not read the catalogue.
    if name in _MODULES:
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
