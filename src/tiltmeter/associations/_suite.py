"""The studies `associations`, `associations/gender`, ....

Heavy modules are imported only when a study is created.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from tiltmeter.errors import InputError, check_known

if TYPE_CHECKING:
    from polars import DataFrame

    from tiltmeter.blocks import Block
    from tiltmeter.study import MethodTable, Part, ReportView, Study

SETTINGS: Final = ("two", "single", "balanced", "negative", "open_box")
"""Two characters (the base setting), one character, good and bad experiences, bad ones only, identities given
through hidden states."""

PARAMS: Final[Mapping[str, str]] = {
    "grid": "a YAML file with identities, descriptors and locations",
    "names": "dealt: first names are assigned to identities at random if the grid lists names;"
    " or grid: its descriptors [default: dealt]",
    "setting": f"one or more of {', '.join(SETTINGS)}, separated by commas, or all",
    "wording": "a built-in wording of the prompts, or a YAML file (also for the judge's prompts)",
    "extraction": "judge or words [default: judge if --judge is given, else words]",
    "language": "language of the texts without a judge: en, de, es or fr"
    " [default: en; of own texts the most frequent one]",
    "stages": "stages of the judge: extract, refine, decompose, polish (separated by commas),"
    " or whole for all of them in one request",
    "encoder": "sentence encoder for clustering phrases: all-MiniLM-L6-v2, a folder,"
    " a model on the Hugging Face Hub, or none [default: all-MiniLM-L6-v2 with a judge, else none]",
    "threshold": "minimum cosine similarity of phrases in one concept [default: 0.63]",
    "method": "clustering method: leader, components or average [default: leader]",
    "minimum": "minimum number of character descriptions with a concept for it to be tested [default: 5]",
    "shuffle": "unit permuted when identities are shuffled: list, or descriptor,"
    " which adds a permutation p to each reported association [default: list]",
    "against": "what each group is compared with: rest (all others together) or each (each other one)"
    " [default: rest]",
    "reference": "the group that each other one is compared with, in both directions",
    "keep": "include concepts that are excluded by default: definitional, echo (words of the prompt), names"
    " (of people and places), agreement (forms that differ with grammatical gender), separated by commas",
    "themes": "a YAML file with the words of each theme [default: appearance, warmth, ability, agency, ...]",
    "terms": "a YAML file with demographic terms and opposites",
}


class AssociationSuite:
    """Registry entry of the method: metadata for listings; call it to create a study."""

    title: ClassVar[str] = "Associations discovered in free stories"
    source: ClassVar[str] = "Discovering Bias Associations through Open-Ended LLM Generations (2025)"
    description: ClassVar[str] = (
        "Which concepts does this model associate with which identities, without a predefined list?"
    )
    parts: ClassVar[tuple[str, ...]] = ("gender", "race", "religions")
    reads: ClassVar[tuple[str, ...]] = ("location", "name", "pair", "cluster")
    """Optional columns of existing texts, in addition to text and identity."""

    def __call__(self, name: str | None = None, params: Mapping[str, str] | None = None) -> Study:
        """Create the study of all categories of the grid, or of one (`associations/race`).

        Its sampling parameters are those of the paper.

        Parameters
        ----------
        name
            The category; None: all.
        params
            `grid` and `setting` determine the parts: one for each category and setting.

        Raises
        ------
        InputError
            The category or setting is unknown, or the grid is invalid.
        """
        from tiltmeter.associations._grid import load_grid
        from tiltmeter.associations._parts import StoryGrid

        params = params or {}
        grid = load_grid(params.get("grid"))
        categories = list(grid.categories) if name is None else [name]
        settings = _settings(params.get("setting", "two"))
        parts = [StoryGrid(grid, category, setting) for category in categories for setting in settings]
        return _study("associations" if name is None else f"associations/{name}", parts)

    def present(self, view: ReportView) -> list[Block]:
        """Return the report blocks of these studies."""
        from tiltmeter.associations._presentation import present

        return present(view)

    def tables_of(self, view: ReportView) -> Mapping[str, MethodTable]:
        """Return the tables of the BADF paper: `summary`, `locations` and `top`."""
        from tiltmeter.associations.paper_tables import tables_of

        return tables_of(view)

    def of_texts(self, rows: DataFrame, params: Mapping[str, str]) -> Study:
        """Create the study of existing texts.

        Parameters
        ----------
        rows
            One row per text: `text`, `identity`, and optionally `location`, `name` (of the person the text is
            about), `pair` and `cluster`.

        Raises
        ------
        InputError
            `params` contains a parameter of generated stories, `grid` or `setting`.
        """
        from tiltmeter.associations._parts import OwnTexts

        for key in ("grid", "names", "setting"):
            if key in params:
                raise InputError(
                    f"-P {key}= applies to generated stories only, not to existing texts; leave it out"
                )
        return _study("associations/texts", [OwnTexts(rows)])


def _study(name: str, parts: Sequence[Part]) -> Study:
    from tiltmeter.models import Sampling
    from tiltmeter.study import Study

    sampling = Sampling(temperature=0.9, top_p=1.0, max_tokens=2048, extra={"frequency_penalty": 0.6})
    judging = Sampling(temperature=0.7, top_p=0.8, max_tokens=2048)
    return Study(
        name=name,
        title=parts[0].title if len(parts) == 1 else AssociationSuite.title,
        parts=parts,
        sampling=sampling,
        judging=judging,
        description=AssociationSuite.description,
        params=PARAMS,
    )


def _settings(text: str) -> list[str]:
    """Return the settings in the value of `-P setting=`."""
    if text == "all":
        return list(SETTINGS)
    settings = [setting.strip() for setting in text.split(",")]
    for setting in settings:
        check_known(setting, [*SETTINGS, "all"], f"-P setting={text}")
    return list(dict.fromkeys(settings))


suite: Final = AssociationSuite()
