"""Where the work of a run is done: in this process, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.engine._display import Display
    from tiltmeter.engine._journal import Journal
    from tiltmeter.engine._limits import Limits
    from tiltmeter.engine._prices import Prices
    from tiltmeter.engine._request import Request
    from tiltmeter.engine._tally import Tally
    from tiltmeter.models import Model, Sampling
    from tiltmeter.models.classifiers import TextClassifier
    from tiltmeter.models.encoders import SentenceEncoder

__all__ = ["LOCAL", "Engine", "LocalEngine", "open_engine"]

LOCAL = "local"
_RAY = "ray"


class Engine(Protocol):
    """Carries out what costs: answers of models and judges, vectors of encoders, scores of classifiers.

    What comes out does not depend on the engine. The journal is read and written by the calling process alone.
    """

    @property
    def name(self) -> str:
        """As the user wrote it, without credentials; kept in run.json."""
        ...

    def generate(
        self,
        model: Model,
        requests: Iterable[Request],
        sampling: Sampling,
        *,
        journal: Journal,
        limits: Limits | None = None,
        progress: Display | None = None,
        prices: Prices | None = None,
    ) -> Tally:
        """See `tiltmeter.engine.generate`."""
        ...

    def encoder(self, name_or_path: str | Path, *, store: Path | None) -> SentenceEncoder:
        """See `tiltmeter.models.encoders.open_encoder`."""
        ...

    def classifier(self, name_or_path: str | Path, *, store: Path | None) -> TextClassifier:
        """See `tiltmeter.models.classifiers.open_classifier`."""
        ...


class LocalEngine:
    """Everything in this process: one event loop for endpoints, one thread for a model of this machine."""

    name = LOCAL

    def generate(
        self,
        model: Model,
        requests: Iterable[Request],
        sampling: Sampling,
        *,
        journal: Journal,
        limits: Limits | None = None,
        progress: Display | None = None,
        prices: Prices | None = None,
    ) -> Tally:
        """See `Engine`."""
        from tiltmeter.engine._generate import generate

        return generate(model, requests, sampling, journal=journal, limits=limits, progress=progress, prices=prices)

    def encoder(self, name_or_path: str | Path, *, store: Path | None) -> SentenceEncoder:
        """See `Engine`."""
        from tiltmeter.models.encoders import open_encoder

        return open_encoder(name_or_path, store=store)

    def classifier(self, name_or_path: str | Path, *, store: Path | None) -> TextClassifier:
        """See `Engine`."""
        from tiltmeter.models.classifiers import open_classifier

        return open_classifier(name_or_path, store=store)


@contextmanager
def open_engine(name: str | None = None, options: Mapping[str, str] | None = None) -> Iterator[Engine]:
    """The engine a user named, until the block ends.

    Parameters
    ----------
    name
        "local" (the default), "ray" (the cluster this machine belongs to, or one started here for the time of the block) or
        "ray://HOST:PORT" (a cluster elsewhere).
    options
        `-E key=value`, for Ray only; see `tiltmeter.engine.ray.RayOptions`.

    Raises
    ------
    InputError
        There is no such engine, or an option it does not know.
    ProviderError
        Ray is not installed, or the cluster cannot be reached.
    """
    name, options = name or LOCAL, options or {}
    if name == LOCAL:
        if options:
            raise InputError(f"-E {next(iter(options))}= is about Ray; give --engine ray as well, or leave it out")
        yield LocalEngine()
        return
    if name != _RAY and not name.startswith(f"{_RAY}://"):
        raise InputError(f"--engine {name!r} is not one of local, ray, ray://HOST:PORT")
    from tiltmeter.engine.ray import RayOptions, open_ray

    with open_ray(name, RayOptions.parse(options)) as engine:
        yield engine
