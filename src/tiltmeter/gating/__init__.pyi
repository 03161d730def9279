from .gate_check import gate
from .outputs import append_summary, print_verdict, write_junit
from .rule_files import Limit, Rules
from .verdict import Check, Verdict

__all__ = ["Check", "Limit", "Rules", "Verdict", "append_summary", "gate", "print_verdict", "write_junit"]
