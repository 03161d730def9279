"""The studies of benchmarks: how a model treats groups on a subject, calibrated against a baseline (SAGED).

The studies are `benchmarks/g20`, `benchmarks/religions`, ... and benchmarks of the user. Heavy modules are
imported only when a study is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from polars import DataFrame

    from tiltmeter.blocks import Block
    from tiltmeter.study import Part, ReportView, Study


PROMPT_PARAMS: Final = ("benchmark", "roles", "wording", "group")
"""Parameters that apply to prompts only."""


class BenchmarkSuite:
    """Registry entry of the benchmarks: texts for listings; calling it creates the study."""

    title: str = "Benchmarks about groups of your choice"
    source: str = (
        "SAGED: A Holistic Bias-Benchmarking Pipeline for Language Models with Customisable Fairness "
        "Calibration (COLING 2025)"
    )
    description: str = (
        "How does this model treat the groups I choose, on the subject I choose, against a baseline I "
        "call fair?"
    )
    parts: tuple[str, ...] = ("g20", "religions", "parties")
    reads: tuple[str, ...] = ("baseline", "pair", "feature")
    """Optional columns of imported responses, besides text and identity."""

    def __call__(self, name: str | None = None, params: Mapping[str, str] | None = None) -> Study:
        """Return the study of all built-in benchmarks, of a single one, or of a benchmark file.

        A single one is named, as in `benchmarks/g20`; a file is given with `-P benchmark=FILE`.

        Raises
        ------
        InputError
            There is no such benchmark, role or wording, or a file cannot be used.
        """
        from tiltmeter.benchmarks._parts import builtin_part, own_part

        params = params or {}
        if "benchmark" in params:
            if name is not None:
                raise InputError(
                    f"-P benchmark= cannot be combined with the built-in study benchmarks/{name}; use it "
                    "with the study benchmarks"
                )
            part = own_part(params["benchmark"], params)
            return self._study(part.name, [part])
        names = [name] if name else self.parts
        return self._study(name, [builtin_part(part_name, params) for part_name in names])

    def of_texts(self, rows: DataFrame, params: Mapping[str, str]) -> Study:
        """Return a study of imported responses, or of feature values measured elsewhere.

        Parameters
        ----------
        rows
            One row per response: `text`, `identity` (its group), and optionally `baseline`, `pair` (an
            identifier shared by responses to the same prompt about different groups) and `value:NAME` columns
            of features measured elsewhere.

        Raises
        ------
        InputError
            A parameter applies to prompts only.
        """
        from tiltmeter.benchmarks._parts import OwnAnswers

        for key in PROMPT_PARAMS:
            if key in params:
                raise InputError(
                    f"-P {key}= applies to prompts, which imported responses do not have; remove it"
                )
        return self._study("texts", [OwnAnswers(rows)])

    def _study(self, name: str | None, parts: list[Part]) -> Study:
        from tiltmeter.benchmarks._options import PARAMS
        from tiltmeter.models import Sampling
        from tiltmeter.study import Study

        title = parts[0].title if len(parts) == 1 else self.title
        return Study(
            name="benchmarks" if name is None else f"benchmarks/{name}",
            title=title,
            parts=parts,
            sampling=Sampling(temperature=0.7, max_tokens=512),
            judging=Sampling(temperature=0.0, max_tokens=1024),
            description=self.description,
            params=PARAMS,
        )

    def present(self, view: ReportView) -> list[Block]:
        """Return the report blocks of the benchmarks."""
        from tiltmeter.benchmarks._presentation import present

        return present(view)


suite: Final = BenchmarkSuite()
