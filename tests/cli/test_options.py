"""The Python functions and the commands share one table of options."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import TYPE_CHECKING, Any, assert_type

import pytest

import tiltmeter as tm
from tiltmeter import api
from tiltmeter._cli import application, benchmark_commands, run_commands
from tiltmeter._cli.command_options import python_arguments, with_options
from tiltmeter._options import OPTIONS, REQUIRED
from tiltmeter.engine import Limits
from tiltmeter.errors import InputError
from tiltmeter.models import Sampling

FUNCTIONS = (api.plan, api.run, api.arun, api.analyse, api.build, api.label)
OF_ONE_FUNCTION = {
    ("plan", "model"),
    ("analyse", "model"),
    ("analyse", "group"),
    ("label", "model"),
    ("build", "out"),
}
"""Parameters with the name of a shared option and another meaning."""


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_parameters_have_the_defaults_of_the_table(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    shared = {option.target: option.default for option in OPTIONS.values() if option.target in parameters}
    for name, default in shared.items():
        if (function.__name__, name) not in OF_ONE_FUNCTION:
            expected = inspect.Parameter.empty if default is REQUIRED else default
            assert parameters[name].default == expected, name


def test_every_option_is_a_parameter_of_run_or_analyse() -> None:
    parameters = {*inspect.signature(api.run).parameters, *inspect.signature(api.analyse).parameters}
    assert {option.target.partition(".")[0] for option in OPTIONS.values()} <= parameters


def test_limits_have_the_defaults_of_the_table() -> None:
    of_table = {
        option.target.removeprefix("limits."): option.default
        for option in OPTIONS.values()
        if option.target.startswith("limits.")
    }
    assert of_table == {field.name: field.default for field in fields(Limits)}


def test_fields_of_sampling_exist() -> None:
    names = {field.name for field in fields(Sampling)}
    of_table = {option.target for option in OPTIONS.values() if option.target.startswith("sampling.")}
    assert {target.removeprefix("sampling.") for target in of_table} <= names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base_url": 3}, "base_url= must be a string, not 3"),
        ({"out": 3}, "out= must be a path or a URL, not 3"),
        ({"journal": b"x"}, "journal= must be a path or a URL, not b'x'"),
        ({"display": True}, "display= must be a string such as plain, not True"),
        ({"engine": 1}, "engine= must be a string such as ray, not 1"),
        ({"limits": 8}, "limits= must be a tiltmeter.engine.Limits, not 8"),
    ],
)
def test_values_of_other_types_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        tm.run("genderbench/direct", model="sim/fair", **arguments)
    assert str(error.value) == message


def test_arun_has_the_parameters_of_run() -> None:
    assert inspect.signature(tm.arun) == inspect.signature(tm.run)
    assert inspect.iscoroutinefunction(tm.arun)


def test_commands_list_options_in_the_order_of_the_declaration() -> None:
    @with_options("judge limit", "options timeout")
    def command(study: str, limit: str = "own", *, show: bool = False, **options: Any) -> None:
        """Declare a parameter with the name of an option, and take the others in `options`."""

    parameters = inspect.signature(command).parameters
    assert list(parameters) == ["study", "judge", "limit", "options", "timeout", "show"]
    assert parameters["limit"].default == "own"


@pytest.mark.parametrize(
    ("command", "function"),
    [
        (application.run, api.run),
        (application.plan, api.plan),
        (run_commands.analyse, api.analyse),
        (benchmark_commands.build, api.build),
    ],
    ids=["run", "plan", "analyse", "build"],
)
def test_commands_pass_arguments_that_the_functions_have(command: Any, function: Any) -> None:
    options = [OPTIONS[name] for name in inspect.signature(command).parameters if name in OPTIONS]
    arguments = {option.target.partition(".")[0] for option in options}
    assert arguments <= {*inspect.signature(function).parameters}


def test_values_of_options_become_python_arguments() -> None:
    values = {"params": ["wording=all"], "timeout": 5.0, "rpm": None, "max_tokens": 9, "seed": 1}
    assert python_arguments(values) == {
        "params": {"wording": "all"},
        "limits": Limits(timeout=5.0),
        "sampling": {"max_tokens": 9},
        "seed": 1,
    }


if TYPE_CHECKING:

    async def check_types_of_arun() -> None:
        """Mypy reads this: wrong calls of `arun` are errors, as those of `run` are."""
        assert_type(await tm.arun("genderbench/direct", model="sim/fair", limit=2), tm.Run)
        await tm.arun("genderbench/direct", model="sim/fair", seed="1")  # type: ignore[arg-type]
        await tm.arun("genderbench/direct", model="sim/fair", limt=2)  # type: ignore[call-arg]
        await tm.arun("genderbench/direct")  # type: ignore[call-arg]
