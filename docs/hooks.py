"""Make pages when the documentation is built: a card for each probe, and the cells of the notebooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

HARMS = {"outcome_disparity": "outcome disparity", "stereotypical_reasoning": "stereotypical reasoning"}
HARMS["representational_harms"] = "representational harms"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the made pages in the navigation, below the headings that are empty there."""
    for entry in config.nav or []:
        for title, pages in entry.items():
            if title == "Probe cards":
                pages.extend({_title(name): f"probes/{name}.md"} for name in _probes())
            elif title == "Notebooks":
                pages.extend(f"notebooks/{path.stem}.md" for path in _notebooks(config))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the made pages."""
    for name, probe in _probes().items():
        files.append(File.generated(config, f"probes/{name}.md", content=_card(name, probe)))
    for path in _notebooks(config):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=_cells(path)))
    return files


def _probes() -> dict[str, Any]:
    from tiltmeter.probes import PROBES

    return {name: PROBES.load(name) for name in PROBES.names()}


def _title(name: str) -> str:
    return str(_probes()[name].card.title)


def _card(name: str, probe: Any) -> str:
    card = probe.card
    rows = {
        "Harm": HARMS.get(card.harm, card.harm),
        "Asks": card.asks,
        "Reads": card.reads,
        "Bias is": card.bias,
        "Compares": "; ".join(map(_groups, probe.compares)) or "no groups",
        "Limitations": card.limits,
        "Source": card.source,
        "Differences from the original in the default definition": card.changed
        or "only those that apply to all probes",
        "Metrics with other tiers than the published ones": ", ".join(
            f"`{metric.name}`" for metric in probe.metrics if metric.bands != metric.published_bands
        )
        or "none",
        "Data": ", ".join(f"`{one}`" for one in card.data) or "none from outside",
        "Repetitions of each prompt": str(probe.repetitions),
    }
    table = "\n".join(f"| {key} | {_cell(value)} |" for key, value in rows.items())
    metrics = "\n".join(
        f"| `{metric.name}` | {'yes' if metric.bands else ''} | {_cell(metric.description)} |"
        for metric in probe.metrics
    )
    return (
        f"# {card.title}\n\n```\ntiltmeter run genderbench/{name} --model sim/mild --limit"
        f" 50\n```\n\n|  |  |\n|---|---|\n{table}\n\n"
        f"## Metrics\n\n| metric | graded | what it is |\n|---|---|---|\n{metrics}\n"
    )


def _groups(groups: Any) -> str:
    names = ", ".join(groups.words(name) for name in groups.names)
    return f"{groups.attribute} ({names})"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _notebooks(config: MkDocsConfig) -> list[Path]:
    return sorted((Path(config.config_file_path).parent / "examples" / "notebooks").glob("*.ipynb"))


def _cells(path: Path) -> str:
    """Return the cells of a notebook as Markdown, without their output."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]
    shown = [f"```python\n{text}\n```" if code else text for text, code in texts]
    return (
        "\n\n".join(
            [*shown, f"This page is the notebook `examples/notebooks/{path.name}`; the tests run it."]
        )
        + "\n"
    )
