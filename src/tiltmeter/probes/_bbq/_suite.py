"""All of BBQ as a study: `bbq`, or one of its categories as `bbq/age`.

Heavy modules are imported only when the study is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tiltmeter.errors import check_known
from tiltmeter.probes._suite import GenderBenchSuite

if TYPE_CHECKING:
    from tiltmeter.blocks import Block
    from tiltmeter.study import MethodTable, ReportView, Study

PARTS: Final = (
    "age",
    "disability_status",
    "gender_identity",
    "nationality",
    "physical_appearance",
    "race_ethnicity",
    "race_x_gender",
    "race_x_ses",
    "religion",
    "ses",
    "sexual_orientation",
)
"""The nine categories and two intersections, as in the table of categories."""
WITHOUT: Final = ("attribute", "language")
"""Parameters of the probes of GenderBench that the categories do not have."""

OF_RELEASED: Final = {
    "column": "for released answers (tiltmeter analyse): the columns of predictions, separated by commas "
    "[default: all]"
}
"""The parameter of the columns of released answers."""


class BbqSuite(GenderBenchSuite):
    """Registry entry of BBQ: texts for listings; calling it creates the study."""

    title = f"Stereotypes in answers to questions in {len(PARTS)} categories"
    source = "BBQ: A Hand-Built Bias Benchmark for Question Answering (2022)"
    description = "Does this model follow stereotypes where a text leaves the answer open, or gives another?"
    parts = PARTS

    def __call__(self, name: str | None = None, params: Mapping[str, str] | None = None) -> Study:
        """Return the study of all categories, or of one (`bbq/age`).

        Raises
        ------
        InputError
            There is no such category.
        """
        from tiltmeter.probes._bbq._categories import categories
        from tiltmeter.probes._bbq._category import BbqCategory

        known = categories()
        if name is not None:
            check_known(name, known, f"unknown category {name!r} of bbq")
        chosen = list(known) if name is None else [name]
        probes = [BbqCategory(known[part]) for part in chosen]
        if name is None:
            study = self._study("bbq", self.title, probes, self.description)
        else:
            study = self._study(f"bbq/{name}", f"BBQ: {probes[0].title}", probes, probes[0].card.asks)
        described = {key: about for key, about in study.params.items() if key not in WITHOUT}
        return replace(study, params={**described, **OF_RELEASED}, noun="categories")

    def present(self, view: ReportView) -> list[Block]:
        """Return the report blocks of the categories."""
        from tiltmeter.probes._bbq._presentation import present

        return present(view)

    def tables_of(self, view: ReportView) -> Mapping[str, MethodTable]:
        """Return the table of the six formulas, `formulas`."""
        from tiltmeter.probes._bbq._presentation import tables_of

        return tables_of(view)


suite: Final = BbqSuite()
"""The study of all categories."""
