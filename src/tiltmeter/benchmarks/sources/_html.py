"""Text of paragraphs and captions out of HTML, and the links in its running text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from tiltmeter.benchmarks.sources._pages import Link
from tiltmeter.benchmarks.sources._text import paragraphs, tidy
from tiltmeter.errors import InputError

__all__ = ["Html", "need", "read_html"]

_BLOCKS = frozenset({"p", "figcaption", "caption"})
_CAPTION_CLASSES = frozenset({"thumbcaption", "gallerytext", "infobox-caption"})
_UNREAD = frozenset({"script", "style", "noscript", "template", "annotation", "math", "nav", "head", "svg", "iframe", "select", "button"})
_UNREAD_CLASS = re.compile(
    r"(?<!\S)(?:reference|noprint|mw-editsection|mw-cite-backlink|navbox|reflist|references|mw-references-wrap|hatnote|metadata|ambox|error"
    r"|mwe-math-element|toc|sistersitebox|catlinks)(?!\S)"
)
_PARTING = re.compile(
    r"address|article|aside|blockquote|br|d[dlt]|details|div|fieldset|footer|form|h[1-6r]|header|li|main|[ou]l|pre|section|summary|table|t[dhr]"
)
_NO_XML = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BRACKETED = re.compile(r"\s*\[.*\]\s*", re.DOTALL)


class Html(NamedTuple):
    """What was read of a page."""

    text: str
    title: str | None
    links: tuple[Link, ...]
    """Links of its paragraphs that name the page they lead to (`title`), as a wiki's do; those to pages that do not exist left out."""


def need(module: str, what: str) -> None:
    """Raise InputError, naming the extra, where a library for reading documents is not installed."""
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise InputError(f'{what} needs a library that is not installed: pip install "tiltmeter[benchmarks]"')


def read_html(html: bytes | str, declared: str | None = None) -> Html:
    """Read a whole document or a piece of one.

    The text is that of paragraphs and captions, in order, without reference marks; of a page that has none, all its text.

    Parameters
    ----------
    declared
        Encoding the server named, for bytes that are not UTF-8.

    Raises
    ------
    InputError
        The extra `benchmarks` is not installed.
    """
    need("lxml", "reading HTML")
    need("bs4", "reading HTML")
    import lxml.etree
    import lxml.html

    markup = (_decoded(html, declared) if isinstance(html, bytes) else html).replace("\0", "")
    if not markup.strip():
        return Html("", None, ())
    parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = lxml.html.document_fromstring(markup.encode("utf-8", errors="replace"), parser=parser)
    except lxml.etree.LxmlError:
        return Html("", None, ())
    named = root.find(".//title")
    title = tidy(named.text_content()) if named is not None else ""
    for element in root.iter():  # what is written back must hold no control characters
        element.text, element.tail = _fit(element.text), _fit(element.tail)
    for element in [one for one in root.iter() if _is_unread(one)]:
        if element.getparent() is not None:  # left there as nothing: taking it out would join ever longer texts
            tail = element.tail
            element.clear()
            element.tag, element.tail = "span", tail
    for broken in root.iter("br"):
        broken.tail = "\n" + (broken.tail or "")
    blocks = _blocks(root)
    text = paragraphs(one.text_content() for one in blocks) or _everything(root)
    return Html(text, title or None, tuple(_links(one for one in blocks if one.tag == "p")))


def _decoded(html: bytes, declared: str | None) -> str:
    from bs4.dammit import UnicodeDammit

    try:  # what can be read as UTF-8 is UTF-8, whatever a header says
        return html.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    return UnicodeDammit(html, user_encodings=[declared] if declared else [], is_html=True).unicode_markup or ""


def _classes(element: Any) -> set[str]:
    return set((element.get("class") or "").split())


def _is_unread(element: Any) -> bool:
    if not isinstance(element.tag, str):
        return False
    if element.tag in _UNREAD or _UNREAD_CLASS.search(element.get("class") or "") or element.get("role") == "navigation":
        return True
    return element.tag == "sup" and bool(_BRACKETED.fullmatch(element.text_content()))


def _blocks(root: Any) -> list[Any]:
    """Paragraphs and captions, none inside another."""
    chosen: list[Any] = []
    inside: set[Any] = set()
    for element in root.iter():
        if element in inside or not isinstance(element.tag, str):
            continue
        if element.tag in _BLOCKS or _classes(element) & _CAPTION_CLASSES:
            chosen.append(element)
            inside.update(element.iterdescendants())
    return chosen


def _fit(text: str | None) -> str:
    """Without what lxml reads, but would not take back."""
    return _NO_XML.sub("", text or "")


def _everything(root: Any) -> str:
    for element in root.iter():
        if isinstance(element.tag, str) and _PARTING.fullmatch(element.tag):
            element.text = "\n\n" + (element.text or "")
            element.tail = "\n\n" + (element.tail or "")
    return paragraphs(root.text_content().split("\n\n"))


def _links(blocks: Iterable[Any]) -> Iterable[Link]:
    for block in blocks:
        for anchor in block.iter("a"):
            title, label = anchor.get("title"), tidy(anchor.text_content())
            if title and label and anchor.get("href") and not _classes(anchor) & {"new", "external", "extiw"}:
                yield Link(tidy(title), label)
