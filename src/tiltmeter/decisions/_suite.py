"""The registered study `decisions`: decisions that were already made.

Heavy modules are imported only when a study is created.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from polars import DataFrame

    from tiltmeter.blocks import Block
    from tiltmeter.decisions._parts import Decisions
    from tiltmeter.study import ReportView, Study


class DecisionSuite:
    """Registry entry of the study: metadata for listings, and how its findings are presented."""

    title: ClassVar[str] = "Decisions by group"
    description: ClassVar[str] = (
        "Are people of different groups selected at different rates, in decisions that you have in a table?"
    )
    parts: ClassVar[tuple[str, ...]] = ()
    asks: ClassVar[bool] = False
    """Whether the study has prompts."""
    source: ClassVar[str] = (
        "Uniform Guidelines on Employee Selection Procedures, 29 CFR 1607.4 D (four-fifths rule); flip rates"
        " and ranges within matched sets: AgentFairBench (2026)"
    )

    def __call__(self, name: str | None = None, params: Mapping[str, str] | None = None) -> Study:
        """Raise InputError: this study has no prompts."""
        raise InputError(
            "the study decisions has no prompts; it analyses decisions that you have:"
            " tiltmeter analyse decisions.csv --group COLUMN --outcome COLUMN"
        )

    def of_decisions(self, parts: Sequence[Decisions]) -> Study:
        """Create the study of decisions, one part for each outcome."""
        from tiltmeter.study import Study

        return Study(
            name="decisions",
            title=parts[0].title if len(parts) == 1 else self.title,
            parts=parts,
            description=self.description,
            noun="outcomes",
        )

    def of_stored_decisions(self, design: DataFrame, document: Mapping[str, Any]) -> Study:
        """Create the study of a stored run again.

        Parameters
        ----------
        design
            The design of the run.
        document
            Its study.yaml; `columns` has the roles of the user's columns.

        Raises
        ------
        InputError
            The document does not describe decisions.
        """
        from tiltmeter.decisions._parts import parts_of_design

        columns = document.get("columns")
        if not isinstance(columns, dict) or not {"outcome", "group"}.issubset(columns):
            raise InputError("study.yaml of the run does not say which columns are outcomes and groups")
        return self.of_decisions(parts_of_design(design, columns))

    def present(self, view: ReportView) -> list[Block]:
        """Return the report blocks of these studies."""
        from tiltmeter.decisions._presentation import present

        return present(view)


suite: Final = DecisionSuite()
