"""The provider `hf`: a language model of the catalogue by its name, or any other local model.

`tiltmeter.models._huggingface` creates both.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tiltmeter.datasets._library import MODELS, DataUnavailable, Library
from tiltmeter.errors import ProviderError
from tiltmeter.models import _huggingface as huggingface
from tiltmeter.models._huggingface import CataloguedFile

if TYPE_CHECKING:
    from tiltmeter.models._huggingface import BulkModel, LocalModel

OPTIONS: Final[frozenset[str]] = huggingface.OPTIONS
"""Options of `create`; all others are vendor extras."""


def create(
    provider: str, model: str, *, base_url: str | None, options: Mapping[str, str]
) -> LocalModel | BulkModel:
    """Create the model of the catalogue with this name, or any other local model.

    The model is downloaded if necessary, after options and packages have been checked. An existing folder of
    that name takes precedence.

    Raises
    ------
    InputError
        As for `tiltmeter.models._huggingface.create`; or a local copy differs from the catalogued file.
    ProviderError
        The extra `local` is not installed, or no source provides the model.
    """
    catalogued = None
    if model in MODELS and not Path(model).exists():
        catalogued = CataloguedFile(MODELS[model], partial(_path_in_library, MODELS[model]))
    return huggingface.create(provider, model, base_url=base_url, options=options, catalogued=catalogued)


def _path_in_library(name: str) -> Path:
    library = Library.default(progress=lambda line: print(line, file=sys.stderr))
    try:
        return library.path(name)
    except DataUnavailable as error:
        raise ProviderError(str(error)) from None
