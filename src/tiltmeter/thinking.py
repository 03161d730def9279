"""The marks with which models set their thinking apart from the answer: regular expressions that Python and Polars both understand."""

from __future__ import annotations

_LEFT, _RIGHT = "\u25c1\u25b7"
_TAG = (
    r"(?i:think(?:ing)?|thoughts?|reason(?:ing)?|reflect(?:ion)?|analysis|scratchpad|(?:inner|internal)_(?:monologue|thoughts?)"
    r"|chain_of_thought|cot|antthinking|(?:seed:|longcat_)think)"
)
OPENS = (
    r"(?:(?:<\|start\|>assistant)?<\|channel\|>\s*(?:analysis|commentary)[^<>\n]{0,80}<\|message\|>|<\|?channel\|?>\s*thought\b"
    rf"|[<{_LEFT}]\|?{_TAG}\|?[>{_RIGHT}]|<\|(?i:(?:begin_of_|start_)think(?:ing)?|begin_of_thought|inner_prefix)\|>"
    r"|<unused94>(?:thought\b)?|\[THINK\])"
)
"""Begins thinking: tags, the channels of gpt-oss, and the special tokens of other families."""
CLOSES = (
    r"(?:(?:<\|start\|>assistant)?<\|channel\|>\s*final[^<>\n]{0,80}<\|message\|>|<channel\|>"
    rf"|[<{_LEFT}]\|?/{_TAG}\|?[>{_RIGHT}]|<\|(?i:end_of_think(?:ing)?|end_thinking|end_of_thought|inner_suffix)\|>"
    r"|<unused95>|\[/THINK\])"
)
"""Ends thinking."""
UNMARKED = (
    (r"(?s)\A\s*analysis([A-Z\"'(*].*?)assistant\s?final", True),
    (r"\A\s*analysis([A-Z\"'(*])", False),
    (r"(?is)\A\s*here(?:'s| is) my thought process:(.*?)here(?:'s| is) my (?:final )?response:", True),
    (r"(?i)\A\s*here(?:'s| is) my thought process:()", False),
)
"""Thinking without marks (channels whose tokens were stripped; Granite's sentences), its text as the only group, and whether it ends."""
SPECIAL = r"<\|[A-Za-z_]{1,30}\|>|</?s>|<(?:start|end)_of_turn>"
"""Special tokens around an answer."""
