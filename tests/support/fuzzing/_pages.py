"""Readers of documents that sentences are taken from."""

from __future__ import annotations

import io
import json
from pathlib import Path

from pypdf import PdfWriter

from support.fuzzing.contract import Target
from tiltmeter.benchmarks._builder import read_files
from tiltmeter.benchmarks._builder.sources import read_document

_HTML = (
    b"<!doctype html><html><head><title>Chad</title></head><body><p class='x'>Chad<sup>[1]</sup> is<br>"
    b"a <a href='/wiki/Land' title='Land'>"
    b"land</a>.</p><table><tr><td>x</td></tr></table>"
    b"<div class='thumbcaption'>A map (;) [citation needed]</div>"
    b"<script>x</script></body></html>"
)
_MARKDOWN = (
    b"---\ntitle: x\n---\n# Chad\n\nChad is *a land*.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    b"- [x](http://y)\n```\ncode\n```\n"
)


def _pdf() -> bytes:
    target = io.BytesIO()
    writer = PdfWriter()
    writer.add_blank_page(72, 72)
    writer.add_metadata({"/Title": "Chad"})
    writer.write(target)
    return target.getvalue()


def _document(kind: str) -> Target:
    def read(data: bytes, folder: Path) -> object:
        document = read_document(data, kind, "latin-1")
        document.text.encode()  # no lone surrogates: tables cannot hold them
        (document.title or "").encode()
        return document

    seeds: dict[str, bytes] = {"html": _HTML, "md": _MARKDOWN, "txt": "Chad\u2029is\na land[1].".encode()}
    documents = [seeds[kind]] if kind in seeds else [_pdf()]
    return Target(f"source .{kind}", read, lambda: documents, "text")


def _files(data: bytes, folder: Path) -> object:
    (folder / "given.json").write_bytes(data)
    return read_files({"Chad": [str(folder / "given.json")]})


def targets() -> list[Target]:
    """Return the readers of documents as sources."""
    groups = json.dumps({"Chad": {"Land_and people": ["Chad is a land.", "It is big."], "x": "y"}}).encode()
    return [
        *(_document(kind) for kind in ("html", "md", "txt", "pdf")),
        Target("source .json", _files, lambda: [groups], "json", names="given.json"),
    ]
