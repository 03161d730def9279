"""Method 3: benchmarks. How a model treats the groups I choose, on the subject I choose, against a baseline I call fair (SAGED).

The studies are `benchmarks/g20`, `benchmarks/religions`, ... and a user's own; nothing heavy is imported before one is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from polars import DataFrame

    from tiltmeter.blocks import Block
    from tiltmeter.study import Part, ReportView, Study

__all__ = ["BenchmarkSuite", "suite"]


class BenchmarkSuite:
    """What the registry holds: what a listing shows, and the study itself when called."""

    title = "Benchmarks about groups of your choice"
    source = "SAGED: A Holistic Bias-Benchmarking Pipeline for Language Models with Customisable Fairness Calibration (COLING 2025)"
    description = "How does this model treat the groups I choose, on the subject I choose, against a baseline I call fair?"
    parts = ("g20", "religions", "parties")
    reads = ("baseline", "pair", "feature")
    """Columns of answers of one's own that are of use, beside text and identity."""

    def __call__(self, name: str | None = None, params: Mapping[str, str] | None = None) -> Study:
        """The built-in benchmarks, one of them (`benchmarks/g20`), or the user's (`-P benchmark=FILE`).

        Raises
        ------
        InputError
            There is no such benchmark, role or wording, or a file cannot be used.
        """
        from tiltmeter.benchmarks.benchmark_parts import builtin_part, own_part

        params = params or {}
        if "benchmark" in params:
            if name is not None:
                raise InputError(
                    f"-P benchmark= names a benchmark of your own, and benchmarks/{name} a built-in one: give the study benchmarks"
                )
            part = own_part(params["benchmark"], params)
            return self._study(part.name, [part])
        return self._study(name, [builtin_part(one, params) for one in ([name] if name else self.parts)])

    def of_texts(self, rows: DataFrame, params: Mapping[str, str]) -> Study:
        """The study of answers that were not asked for here, or of values measured elsewhere.

        Parameters
        ----------
        rows
            One row per answer: `text`, `identity` (its group), and where they are known `baseline`, `pair` (what the same prompt for
            other groups shares) and `value:NAME` columns of features measured elsewhere.
        """
        from tiltmeter.benchmarks.benchmark_parts import OwnAnswers

        if senseless := [key for key in ("benchmark", "roles", "wording", "group") if key in params]:
            raise InputError(f"-P {senseless[0]}= is about prompts to be asked; answers of your own have none: leave it out")
        return self._study("texts", [OwnAnswers(rows)])

    def _study(self, name: str | None, parts: list[Part]) -> Study:
        from tiltmeter.benchmarks.configurations import PARAMS
        from tiltmeter.models import Sampling
        from tiltmeter.study import Study

        return Study(
            name="benchmarks" if name is None else f"benchmarks/{name}",
            title=self.title if len(parts) != 1 else parts[0].title,
            parts=parts,
            sampling=Sampling(temperature=0.7, max_tokens=512),
            judging=Sampling(temperature=0.0, max_tokens=1024),
            description=self.description,
            params=PARAMS,
        )

    def present(self, view: ReportView) -> list[Block]:
        """What reports show of benchmarks."""
        from tiltmeter.benchmarks.benchmark_blocks import present

        return present(view)


suite = BenchmarkSuite()
