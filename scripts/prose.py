"""Check documentation, command help, docstrings and messages with proselint and the project's vocabulary."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import typer.main
import yaml
from proselint import checks
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

from tiltmeter._cli.application import app

ROOT = Path(__file__).parent.parent
_OFF = dict.fromkeys(("dates_times", "lexical_illusions", "spelling", "typography", "weasel_words"), False)
_MISREAD = ("industrial_language.commercialese", "misc.phrasal_adjectives", "misc.preferred_forms")
"""Checks that misread texts without their code, names (Emily-John), fonts and quotation marks."""
_CODE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)\n]*\)|<[^>\n]*>", re.DOTALL)


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page of the documentation, code blanked out."""
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        yield str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")


def help_texts(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """Yield the help of a command, of its options and of its subcommands."""
    options = "\n".join(str(getattr(parameter, "help", None) or "") for parameter in command.params)
    yield f"{name} --help", f"{command.help}\n{options}"
    for child, subcommand in getattr(command, "commands", {}).items():
        yield from help_texts(subcommand, f"{name} {child}")


def strings(path: Path) -> str:
    """Return the docstrings and the other sentences of a module, each on the line where it begins."""
    lines: dict[int, str] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value
            and "\\" not in node.value
        ):
            for offset, line in enumerate(node.value.split("\n")):
                lines[node.lineno + offset] = lines.get(node.lineno + offset, "") + " " + line
    return "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))


def sources() -> Iterator[tuple[str, str]]:
    """Yield the sentences of each module of the package, except patterns and word lists of the readers."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        if "readers" not in path.parts:
            yield str(path.relative_to(ROOT)), strings(path)


def complaints(name: str, text: str, vocabulary: dict[str, str]) -> Iterator[str]:
    """Yield one line per place to change."""
    text = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    for result in LintFile(name, text).lint({**DEFAULT, "checks": {**DEFAULT["checks"], **_OFF}}):
        if not result.check_result.check_path.startswith(_MISREAD):
            yield f"{name}:{result.pos[0] - 1}: {result.check_result.message}"
    for word, better in vocabulary.items():
        for match in re.finditer(rf"\b(?:{word})\b", text, re.IGNORECASE):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: '{match[0]}': {better}"


def main() -> int:
    """Print the complaints; return the exit status."""
    vocabulary = yaml.safe_load((ROOT / "scripts" / "vocabulary.yaml").read_text(encoding="utf-8"))
    CheckRegistry().register_many(checks.__register__)
    texts = [*pages(), *help_texts(typer.main.get_command(app), "tiltmeter"), *sources()]
    lines = [line for name, text in texts for line in complaints(name, text, vocabulary)]
    print("\n".join(lines) or f"{len(texts)} texts checked")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
