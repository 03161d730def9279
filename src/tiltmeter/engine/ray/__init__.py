"""The work of a run on a Ray cluster: the same answers, vectors and scores as in one process, from many.

with open_ray("ray", RayOptions.parse({"workers": "4"})) as engine:
    tally = engine.generate(model, requests, sampling, journal=journal)
"""

from __future__ import annotations

from tiltmeter.engine.ray._engine import RayEngine
from tiltmeter.engine.ray._open import open_ray
from tiltmeter.engine.ray._options import RayOptions

__all__ = ["RayEngine", "RayOptions", "open_ray"]
