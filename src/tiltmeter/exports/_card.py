"""What the cards of a dataset and of a model share: front matter, where the data came from, how to cite it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiltmeter.exports._markdown import markdown_table, text
from tiltmeter.exports._paper import Paper

__all__ = ["HOW_TO_SPEAK", "front_matter", "sources"]

HOW_TO_SPEAK = (
    "These numbers say what a model associates with groups of people in its answers to these prompts. They say nothing about people, and a"
    " model in which no bias was shown may still have some that these prompts do not ask for."
)


def front_matter(metadata: Mapping[str, Any]) -> str:
    """Metadata between two rules, as the hub reads it; texts from outside are YAML scalars."""
    import yaml

    return f"---\n{yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=False, width=1_000_000)}---\n"


def sources(about: Mapping[str, Any]) -> str:
    """A section on the outside data of a run: origin, licence, restriction, citation; empty where there was none."""
    data = about["data"]
    if not data:
        return ""
    fields = {"Data": "title", "Licence": "licence", "Origin": "origin", "Version": "version", "Cite": "citation"}
    rows = [[str(entry.get(field) or "") for field in fields.values()] for entry in data]
    restricted = [f"{entry.get('title') or entry['name']} ({entry['restricted']})" for entry in data if entry.get("restricted")]
    warning = (
        f"**Not free to be passed on:** prompts made of {text('; '.join(restricted))}. Whether you may publish them is yours to judge.\n\n"
        if restricted
        else ""
    )
    return f"## Outside data\n\n{warning}{markdown_table(Paper(list(fields), rows, len(fields), []))}\n"
