from ._gate_check import gate
from ._outputs import append_summary, print_verdict, write_junit
from ._rule_files import Limit, Rules
from ._verdict import Check, Verdict

__all__ = ["Check", "Limit", "Rules", "Verdict", "append_summary", "gate", "print_verdict", "write_junit"]
