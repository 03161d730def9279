"""The gate: does a run pass, and why not. It knows findings and run.json only, never the method that made them."""

from tiltmeter.gating.gate_check import Check, Verdict, gate
from tiltmeter.gating.outputs import append_summary, print_verdict, write_junit
from tiltmeter.gating.rule_files import Limit, Rules

__all__ = ["Check", "Limit", "Rules", "Verdict", "append_summary", "gate", "print_verdict", "write_junit"]
