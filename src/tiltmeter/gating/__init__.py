"""The gate: does a run pass, and why not. It knows findings and run.json only, never the method that made them."""

from tiltmeter.gating._gate import gate
from tiltmeter.gating._junit import write_junit
from tiltmeter.gating._lines import print_verdict
from tiltmeter.gating._rules import Limit, Rules
from tiltmeter.gating._summary import append_summary
from tiltmeter.gating._verdict import Check, Verdict

__all__ = ["Check", "Limit", "Rules", "Verdict", "append_summary", "gate", "print_verdict", "write_junit"]
