"""Tables of prompts from prompts with slots: each becomes a matched set for every group that is swapped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from polars import DataFrame

from tiltmeter import stats
from tiltmeter.designs.slots import Swap, attributes_of, read_prompts, swapped
from tiltmeter.errors import InputError, error_prefix
from tiltmeter.probes._table_roles import BETWEEN

FEWEST_PROMPTS: Final = 2


class MarkedPrompts(NamedTuple):
    """Prompts whose slots were filled."""

    table: DataFrame
    """One row per prompt and combination of groups (see `tiltmeter.designs.slots.swapped`)."""
    params: Mapping[str, str]
    """The parameters of the study; `group` names the attributes."""


def filled_prompts(path: Path, params: Mapping[str, str], seed: int) -> MarkedPrompts:
    """Fill the slots of the prompts of a file or folder.

    Parameters
    ----------
    path
        A table with the column `prompt`, a text file, or a folder of text files.
    params
        Parameters of the study: `swap` names lists of groups or a table; without it, the prompts have their
        own alternatives. `group` names the attributes that are compared; by default, each that is swapped.
    seed
        Seed of the names.

    Raises
    ------
    InputError
        There is no slot, or one that does not fit; or `swap` is neither a list nor a table.
    """
    choice = params.get("swap")
    named = params.get("group", "")
    columns = [name.strip() for name in named.replace(BETWEEN, ",").split(",") if name.strip()]
    is_list = choice is not None and not Path(choice).suffix
    swap = Swap.of(choice, None if is_list else list(dict.fromkeys(columns)))
    with error_prefix(f"{path}: "):
        prompts = read_prompts(path)
        attributes = attributes_of(prompts, swap)
        table = swapped(prompts, swap, seed=seed)
        if prompts.height < FEWEST_PROMPTS:
            raise InputError(f"there is only one prompt; a test needs at least {stats.FEWEST_ITEMS}")
    return MarkedPrompts(table, {**params, "group": named or BETWEEN.join(attributes)})
