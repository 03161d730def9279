"""The analysis of made-up responses, before anything is asked: what cannot be analysed is not paid for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import polars as pl
from polars import DataFrame, Series, col, lit

from tiltmeter.comparisons import LENGTH, ComparisonOptions, Groups
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError, check_known, error_prefix
from tiltmeter.models import Message
from tiltmeter.models.sim import Dials, SimulatedModel
from tiltmeter.runs._attempts import Unanalysable
from tiltmeter.runs._outcomes_by_group import with_outcomes_by_group
from tiltmeter.runs._pipeline import ordered
from tiltmeter.runs._shared_tables import ANALYSED, MEASURED, complete_tables
from tiltmeter.runs._short_lists import first_of
from tiltmeter.runs._stage_store import conformed
from tiltmeter.schema import RESPONSES, conform
from tiltmeter.study import (
    NO_TOOLS,
    MeasuredPart,
    NotRun,
    Part,
    Settings,
    Stage,
    open_unloaded_features,
)

MOST_PROMPTS: Final = 200
FEWEST_ITEMS: Final = 3
MOST_ITEMS: Final = 20
"""Prompts and items that are rehearsed first. If these cannot be analysed, all are tried."""
RESAMPLES: Final = 20
MODEL: Final = "sim/fair"


class Comparisons:
    """The groups of the designs of a study, for which its options of comparisons are checked.

    Parameters
    ----------
    settings
        Settings of the study.
    library
        The data and models of features.

    Raises
    ------
    InputError, ProviderError
        The options cannot be used with any design.
    """

    def __init__(self, settings: Settings, library: Library) -> None:
        self._options = ComparisonOptions.of(settings.params)
        self._compared: list[tuple[Groups, list[str]]] = []
        asked = [name for name in ("outcomes", "comparisons") if name in settings.params]
        if asked and not settings.definition.is_default:
            raise InputError(
                f"-P {asked[0]}= is not part of the published definition {settings.definition.name}; "
                "leave out one of the two"
            )
        names = [name for name in self._options.outcomes if name != LENGTH]
        with error_prefix(f"-P outcomes={','.join(names)}: "):
            features = open_unloaded_features(names, library)
        for feature in features:
            if feature.needs_baseline:
                raise InputError(
                    f"-P outcomes={feature.name}: the feature compares texts with baselines; choose another"
                )

    def add(self, part: Part, design: DataFrame, settings: Settings) -> None:
        """Add the groups of the design of a part."""
        for groups in part.compared_groups(settings):
            of_prompts = design.select(group=groups.group)["group"].drop_nulls()
            self._compared.append((groups, list(groups.names) or of_prompts.unique().sort().to_list()))

    def check(self, study: str) -> None:
        """Raise InputError if no part can use an option: it has no such reference, or no numbers."""
        if not self._compared:
            return
        names = sorted({name for _, of_groups in self._compared for name in of_groups})
        reference = self._options.reference
        if reference is not None:
            check_known(reference, names, f"there is no group {reference!r} to compare with")
        has_numbers = any(
            len(of_groups) > 2 and groups.numbers(of_groups) is not None
            for groups, of_groups in self._compared
        )
        if "slope" in self._options.comparisons and not has_numbers:
            raise InputError(
                "-P comparisons=slope: a slope needs at least three groups named by numbers, such as ages; "
                f"the groups of {study} are {first_of(names)}"
            )


def rehearse(part: Part, design: DataFrame, settings: Settings) -> None:
    """Carry out the stages of a part once for each of several sets of made-up responses.

    The responses are those of a simulated model; refusals only; refusals of all prompts about the first
    group; and the same answer to every prompt. A part that needs a judge, an encoder or a classifier is
    rehearsed up to the stage that uses it.

    Raises
    ------
    Unanalysable
        A set of responses cannot be analysed.
    """
    if settings.replace:
        return
    brief = dataclasses.replace(settings, resamples=RESAMPLES)
    error = _first_error(part, _some_items(design), brief)
    if error is not None and not isinstance(error, InputError):
        error = _first_error(part, design, brief)
    if error is not None:
        raise Unanalysable(part.name, error) from error


def _some_items(design: DataFrame) -> DataFrame:
    """Return the prompts of a few items, evenly spaced, in the first wording.

    Analyses of further wordings repeat that of the first.
    """
    first = design.filter(col.wording == design["wording"].first())
    items = first["item"].unique(maintain_order=True)
    number = MOST_PROMPTS * items.len() // max(first.height, 1)
    step = max(1, items.len() // min(max(number, FEWEST_ITEMS), MOST_ITEMS))
    return first.filter(col.item.is_in(items.gather_every(step).implode()))


def _first_error(part: Part, design: DataFrame, settings: Settings) -> Exception | None:
    """Return the error of the first set of made-up responses that cannot be analysed; None if all can."""
    try:
        rehearsal = _Rehearsal(part, design, settings)
        for tables in rehearsal.measured(_made_up_answers(part, design, settings)):
            rehearsal.analyse(tables)
    except NotRun:
        return None
    except Exception as error:
        return error
    except pl.exceptions.PanicException as error:  # not an Exception
        return RuntimeError(str(error))
    return None


def _made_up_answers(part: Part, design: DataFrame, settings: Settings) -> list[DataFrame]:
    """Return sets of made-up responses (columns of RESPONSES and of the design), one for each prompt.

    The number of the set is the `repetition`.
    """
    fair, refusing = SimulatedModel(MODEL, Dials()), SimulatedModel(MODEL, Dials(refusal=1.0))
    plans = part.simulate(design, fair.dials.mapping())
    if plans is not None:
        fair.learn(plans)
    prompts = [_messages(*texts) for texts in design.select("system", "prompt").iter_rows()]
    labels = part.labels
    answers = Series([fair.reply(messages).text for messages in prompts])
    refusals = Series([refusing.reply(messages).text for messages in prompts])
    if plans is None and labels:  # the simulated model has no answers for this probe
        answers = Series([labels[number % len(labels)] for number in range(len(prompts))])
    sets = [answers, refusals, Series([answers[0]] * len(answers))]
    about_first = _about_first_group(part, design, settings)
    if about_first is not None:
        sets.append(refusals.zip_with(about_first, answers))
    rows = design.drop("system", "prompt").with_columns(model=lit(MODEL), status=lit("ok"))
    return [
        conform(rows.with_columns(answer=texts, repetition=number), RESPONSES, further=True)
        for number, texts in enumerate(sets)
    ]


def _messages(system: str | None, prompt: str) -> tuple[Message, ...]:
    """Return the messages of a prompt."""
    asked = Message("user", prompt)
    return (asked,) if system is None else (Message("system", system), asked)


def _about_first_group(part: Part, design: DataFrame, settings: Settings) -> Series | None:
    """Return whether each prompt is about the first group that the part compares; None without groups."""
    for groups in part.compared_groups(settings):
        of_prompts = design.select(group=groups.group)["group"]
        names = groups.names or of_prompts.drop_nulls().unique().sort()
        if len(names):
            return (of_prompts == names[0]).fill_null(False)
    return None


class _Rehearsal:
    """Carries out the stages of a part on made-up responses, without optional stages."""

    def __init__(self, part: Part, design: DataFrame, settings: Settings) -> None:
        self._part, self._settings = part, settings
        self._prompts = design.select("prompt_id", "prompt")
        stages = {stage.name: stage for stage in part.stages}
        self._stages = [stages[name] for name in ordered([part]) if not stages[name].optional]

    def measured(self, sets: Sequence[DataFrame]) -> Iterator[dict[str, DataFrame]]:
        """Yield the tables that are known of each set of responses before the first stage, or after it.

        A stage that measures each response by itself is carried out once for all sets.
        """
        known = [{"answers": answers, "prompts": self._prompts} for answers in sets]
        if isinstance(self._part, MeasuredPart):
            measures = self._carry_out(self._stages.pop(0), {"answers": pl.concat(sets)})[MEASURED]
            for number, tables in enumerate(known):
                tables[MEASURED] = measures.filter(repetition=number)
        yield from known

    def analyse(self, tables: dict[str, DataFrame]) -> None:
        """Carry out the stages on the tables of one set of responses, and compare their outcomes."""
        for stage in self._stages:
            tables |= self._carry_out(stage, tables)
        read = tables.__getitem__
        with_outcomes_by_group(tables[ANALYSED], self._part, read, MODEL, self._settings, NO_TOOLS)

    def _carry_out(self, stage: Stage, tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
        """Return the tables of one stage; those that it does not create are empty."""
        inputs = [tables[table] for table in stage.inputs]
        empty = {name: DataFrame(schema=dict(table.columns)) for name, table in stage.tables.items()}
        created = empty | conformed(stage, stage.run(*inputs, self._settings, NO_TOOLS))
        return complete_tables(created, tables["answers"] if "answers" in stage.inputs else None, MODEL)
