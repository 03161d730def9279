"""One document, of whatever kind, as text."""

from __future__ import annotations

import io
import re
from typing import NamedTuple

from tiltmeter.benchmarks.sources._html import need, read_html
from tiltmeter.benchmarks.sources._text import decoded, paragraphs, plain

__all__ = ["KINDS", "Document", "UnreadableError", "read_document"]

KINDS = {".txt": "txt", ".text": "txt", ".md": "md", ".markdown": "md", ".html": "html", ".htm": "html", ".xhtml": "html", ".pdf": "pdf"}
"""Kind of a document by the end of its file's name."""

_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)


class Document(NamedTuple):
    """Its text, paragraphs parted by an empty line, and its title where it says so."""

    text: str
    title: str | None


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
    html = MarkdownIt("commonmark").enable("table").render(text)
    read = read_html(html)
    heading = re.search(r"<h1>(.*?)</h1>", html, re.DOTALL)
    title = read_html(heading.group(1)).text if heading else ""
    return Document(read.text, title or None)


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
    whole = ""
    for page in pages:  # a sentence goes on over the page unless it has ended
        whole += ("\n\n" if whole.rstrip()[-1:] in tuple(".!?:”\"'") else "\n") + page
    return Document(plain(whole, hyphenated=True), paragraphs([str(title)]) if title else None)
