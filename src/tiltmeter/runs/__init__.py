"""Runs: how a study is carried through its five steps, and how a finished run is opened again."""

from tiltmeter.runs._api import Judging, run, run_named
from tiltmeter.runs._folder import RunFolder
from tiltmeter.runs._inspect_logs import MARK, output_of
from tiltmeter.runs._load import Run, known_runs, load, narrowed
from tiltmeter.runs._own import Asking, analyse_responses
from tiltmeter.runs._plan import Plan, make_plan
from tiltmeter.runs._remote_place import runs_place, runs_root
from tiltmeter.runs._resolve import Resolved, parse_limit, resolve
from tiltmeter.runs._run import RunResult, check_models, default_folder, run_study
from tiltmeter.runs._texts import TextColumns, analyse_texts

__all__ = [
    "MARK",
    "Asking",
    "Judging",
    "Plan",
    "Resolved",
    "Run",
    "RunFolder",
    "RunResult",
    "TextColumns",
    "analyse_responses",
    "analyse_texts",
    "check_models",
    "default_folder",
    "known_runs",
    "load",
    "make_plan",
    "narrowed",
    "output_of",
    "parse_limit",
    "resolve",
    "run",
    "run_named",
    "run_study",
    "runs_place",
    "runs_root",
]
