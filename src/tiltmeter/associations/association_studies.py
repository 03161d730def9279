"""The studies `associations`, `associations/gender`, ... Nothing heavy is imported before a study is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tiltmeter.errors import InputError
from tiltmeter.registry import check_known, did_you_mean

if TYPE_CHECKING:
    from polars import DataFrame

    from tiltmeter.blocks import Block
    from tiltmeter.study import Part, ReportView, Study

SETTINGS = ("two", "single", "balanced", "negative", "open_box")
"""Two characters (the base setting), one, both good and bad experiences, bad ones only, identities through hidden states only."""

PARAMS: Mapping[str, str] = {
    "grid": "a YAML file of your own with identities, descriptors and locations",
    "setting": f"one of {', '.join(SETTINGS)}, several with commas, or all",
    "wording": "a named wording of the stories, or a YAML file of your own (also for the judge's prompts)",
    "extraction": "judge or lexical [default: judge where one is given]",
    "stages": "stages of the judge: extract, refine, decompose, polish (several with commas), or whole for all of them in one call",
    "encoder": "sentence encoder that unifies concepts: all-MiniLM-L6-v2, a folder, a name on the hub, or none",
    "threshold": "cosine similarity from which phrases are one concept [default: 0.63]",
    "method": "how phrases are clustered: leader, components or average",
    "minimum": "lists a concept must be in to be tested [default: 5]",
    "shuffle": "what chance is: identities dealt again to each list, or to whole descriptors, which also tests each association reported"
    " [list|descriptor; default: list]",
    "terms": "a YAML file of your own with demographic terms",
}


class AssociationSuite:
    """What the registry holds: what a listing shows, and the study itself when called."""

    title = "Associations discovered in free stories"
    source = "Discovering Bias Associations through Open-Ended LLM Generations (2025)"
    description = "Which concepts does this model attach to which identities, without a list made beforehand?"
    parts = ("gender", "race", "religions")
    reads = ("location", "name")
    """Columns of texts of one's own that are of use, beside text and identity."""

    def __call__(self, name: str | None = None, params: Mapping[str, str] | None = None) -> Study:
        """The study of all categories of the grid, or of one (`associations/race`), with the paper's sampling.

        Parameters
        ----------
        params
            `grid` and `setting` decide which parts there are: one for each category and setting.

        Raises
        ------
        InputError
            There is no such category or setting, or the grid cannot be used.
        """
        from tiltmeter.associations.design import load_grid
        from tiltmeter.associations.story_parts import StoryGrid

        params = params or {}
        grid = load_grid(params.get("grid"))
        known = list(grid.categories)
        if name is not None:
            check_known(name, known, f"unknown category {name!r} of associations")
        chosen = known if name is None else [name]
        parts = [StoryGrid(grid, category, setting) for category in chosen for setting in _settings(params.get("setting", "two"))]
        return _study("associations" if name is None else f"associations/{name}", parts)

    def present(self, view: ReportView) -> list[Block]:
        """What a report shows of these studies."""
        from tiltmeter.associations.association_blocks import present

        return present(view)

    def of_texts(self, rows: DataFrame, params: Mapping[str, str]) -> Study:
        """The study of texts that others wrote or generated.

        Parameters
        ----------
        rows
            One row per text: `text`, `identity`, and where they are known `location` and `name` (of the person it is about).
        """
        from tiltmeter.associations.story_parts import OwnTexts

        if senseless := [key for key in ("grid", "setting") if key in params]:
            raise InputError(f"-P {senseless[0]}= is about stories to be asked for; texts of your own have none: leave it out")
        return _study("associations/texts", [OwnTexts(rows)])


def _study(name: str, parts: Sequence[Part]) -> Study:
    from tiltmeter.models import Sampling
    from tiltmeter.study import Study

    return Study(
        name=name,
        title=AssociationSuite.title if len(parts) != 1 else parts[0].title,
        parts=parts,
        sampling=Sampling(temperature=0.9, top_p=1.0, max_tokens=2048, extra={"frequency_penalty": 0.6}),
        judging=Sampling(temperature=0.7, top_p=0.8, max_tokens=2048),
        description=AssociationSuite.description,
        params=PARAMS,
    )


def _settings(given: str) -> list[str]:
    if given == "all":
        return list(SETTINGS)
    found = [one.strip() for one in given.split(",")]
    for one in found:
        if one not in SETTINGS:
            raise InputError(f"-P setting={given}: {did_you_mean(one, [*SETTINGS, 'all'])}")
    return list(dict.fromkeys(found))


suite = AssociationSuite()
