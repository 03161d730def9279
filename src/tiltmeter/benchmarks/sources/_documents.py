"""One document, of whatever kind, as text."""

from __future__ import annotations

import io
import re
from itertools import islice
from typing import NamedTuple

from tiltmeter.benchmarks.sources._html import need, read_html
from tiltmeter.benchmarks.sources._text import decoded, paragraphs, plain

__all__ = ["KINDS", "Document", "UnreadableError", "read_document"]

KINDS = {".txt": "txt", ".text": "txt", ".md": "md", ".markdown": "md", ".html": "html", ".htm": "html", ".xhtml": "html", ".pdf": "pdf"}
"""Kind of a document by the end of its file's name."""

_MARKS_READ = 200_000
"""Marks and line breaks of Markdown that are read: each takes its parser some twenty microseconds, so that more would take minutes."""
_MARK = re.compile(r"[^\w\s]|\n")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)


class Document(NamedTuple):
    """Its text, paragraphs parted by an empty line, and its title where it says so."""

    text: str
    title: str | None
    note: str | None = None
    """What of it was not read, and why."""


class UnreadableError(Exception):
    """This document cannot be read; the message says why."""


def read_document(data: bytes, kind: str, declared: str | None = None) -> Document:
    """Read a document of a kind of KINDS.

    Raises
    ------
    UnreadableError
        It is damaged or encrypted.
    InputError
        The extra `benchmarks` is not installed.
    """
    if kind == "pdf":
        return _pdf(data)
    if kind == "html":
        html = read_html(data, declared)
        return Document(html.text, html.title)
    text = decoded(data, declared)
    if "\0" in text:
        raise UnreadableError("it is no text")
    return _markdown(text) if kind == "md" else Document(plain(text), None)


def _markdown(text: str) -> Document:
    need("markdown_it", "reading Markdown")
    from markdown_it import MarkdownIt

    text = _FRONT_MATTER.sub("", text.replace("\r\n", "\n"), count=1)
    beyond = next(islice(_MARK.finditer(text), _MARKS_READ, None), None)
    end = len(text) if beyond is None else beyond.start()
    note = (
        None if beyond is None else f"it holds very many marks of Markdown: only the first {end:,} of its {len(text):,} characters are read"
    )
    html = MarkdownIt("commonmark").enable("table").render(text[:end])
    read = read_html(html)
    _, found, behind = html.partition("<h1>")
    heading, closed, _ = behind.partition("</h1>")
    title = read_html(heading).text if found and closed else ""
    return Document(read.text, title or None, note)


def _pdf(data: bytes) -> Document:
    need("pypdf", "reading PDF")
    import logging

    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # a page of warnings for each slightly odd file
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("it is protected by a password")
        pages = [page.extract_text() for page in reader.pages]
        title = reader.metadata.title if reader.metadata else None
    except UnreadableError:
        raise
    except Exception as error:  # damaged files fail in ever new ways
        raise UnreadableError(f"it cannot be read as PDF ({type(error).__name__})") from None
    pieces: list[str] = []
    last = ""
    for page in pages:  # a sentence goes on over the page unless it has ended
        pieces += ("\n\n" if last in tuple(".!?:”\"'") else "\n", page)
        last = page.rstrip()[-1:] or last
    return Document(plain("".join(pieces), hyphenated=True), paragraphs([str(title)]) if title else None)
