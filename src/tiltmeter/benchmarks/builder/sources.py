"""Sources of sentences: documents as text (HTML, Markdown, PDF, plain), local files, and articles a model writes.

Text comes out as paragraphs separated by an empty line, with one kind of white space and without reference marks. Of HTML, paragraphs
and captions are read; of a page that has none, all its text. Untrusted input stays text and takes time in proportion to its length.
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from polars import DataFrame, Series, String, col

from tiltmeter.benchmarks.benchmark_tables import PAGES
from tiltmeter.benchmarks.judge_replies import ask_all, templates
from tiltmeter.errors import InputError
from tiltmeter.models import Message
from tiltmeter.prompt_templates import fill_template
from tiltmeter.readers import refused_text
from tiltmeter.registry import did_you_mean
from tiltmeter.study import Judge

KINDS = {".txt": "txt", ".text": "txt", ".md": "md", ".markdown": "md", ".html": "html", ".htm": "html", ".xhtml": "html", ".pdf": "pdf"}
"""Kind of a document by the end of its file's name."""


class Link(NamedTuple):
    """A hyperlink in the running text of a page."""

    title: str
    """Of the page it leads to."""
    label: str
    """The words that are linked."""


class SourceDocument(NamedTuple):
    """The text of a document, and its title where it names one."""

    text: str = ""
    title: str | None = None
    note: str | None = None
    """What of it was not read, and why; of a document without text, why it cannot be read."""
    links: tuple[Link, ...] = ()
    """Links of HTML paragraphs that name the page they lead to (`title`), as a wiki's do, except those to pages that do not exist."""


def read_document(data: bytes, kind: str, declared: str | None = None) -> SourceDocument:
    """Read a document of a kind of KINDS; one that is damaged or encrypted has no text and a note.

    Parameters
    ----------
    declared
        Encoding the server named, for bytes that are not UTF-8.

    Raises
    ------
    InputError
        The extra `benchmarks` is not installed.
    """
    if kind == "pdf":
        return _read_pdf(data)
    text = _decode(data, declared, is_html=kind == "html")
    if kind == "html":
        return read_html(text)
    if "\0" in text:
        return SourceDocument(note="it is no text")
    return _read_markdown(text) if kind == "md" else SourceDocument(join_lines(text))


# Plain text

# A run of white space is tried once, at its beginning, so that none takes long.
_REFERENCE_MARK = re.compile(
    r"(?<!\s)\s*+\[(?:\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*|(?:note|nb|n\.b\.)\s?\d{1,3}"
    r"|(?:additional |better )?(?:citations?|sources?|references?|page|clarification|quotation|attribution) needed"
    r"|citation required|dead link|edit|by whom\??|who\??|when\??|where\??|verify|sic)\]",
    re.IGNORECASE,
)
_EMPTY_BRACKETS = re.compile(r"(?<!\s)\s*+\(\s*+(?:[;,:]\s*+)?\)")  # what a removed pronunciation leaves behind
_INVISIBLE = dict.fromkeys((*range(0x09), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0), 0xAD, 0x200B, 0x2060, 0xFEFF))
_EMPTY_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_HYPHENATED = re.compile(r"(?<=[^\W\d_])[-‐\u00ad]\n(?=[^\W\d_])")


def tidy(text: str) -> str:
    """One paragraph on one line: composed characters, single spaces, without reference marks and invisible characters."""
    text = unicodedata.normalize("NFC", text).translate(_INVISIBLE)
    text = _EMPTY_BRACKETS.sub("", _REFERENCE_MARK.sub("", text))
    return " ".join(text.encode("utf-8", errors="replace").decode("utf-8").split())


def join_paragraphs(pieces: Iterable[str]) -> str:
    """The pieces that are not empty, each a paragraph."""
    return "\n\n".join(filter(None, map(tidy, pieces)))


def join_lines(text: str, *, hyphenated: bool = False) -> str:
    """Text with hard line breaks: lines are joined, empty lines separate paragraphs.

    With `hyphenated`, words broken at the end of a line are put together again (pages of print).
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n\n").replace("\u2029", "\n\n")
    if hyphenated:
        text = _HYPHENATED.sub("", text)
    return join_paragraphs(_EMPTY_LINE.split(text))


def _decode(data: bytes, declared: str | None, *, is_html: bool) -> str:
    """Text by its byte order mark, as UTF-8 whatever a header says, as declared, or else as Windows-1252; never fails."""
    marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    for likely in ("utf-16" if marked else "utf-8-sig", "utf-8" if is_html else declared or "utf-8"):
        try:
            return data.decode(likely)
        except (UnicodeDecodeError, LookupError):
            continue
    if not is_html:
        return data.decode("windows-1252", errors="replace")
    _require("bs4", "reading HTML")
    from bs4.dammit import UnicodeDammit

    return UnicodeDammit(data, user_encodings=[declared] if declared else [], is_html=True).unicode_markup or ""


# HTML

_BLOCKS = frozenset({"p", "figcaption", "caption"})
_CAPTION_CLASSES = frozenset({"thumbcaption", "gallerytext", "infobox-caption"})
_UNREAD = frozenset({"script", "style", "noscript", "template", "annotation", "math", "nav", "head", "svg", "iframe", "select", "button"})
_UNREAD_CLASS = re.compile(
    r"(?<!\S)(?:reference|noprint|mw-editsection|mw-cite-backlink|navbox|reflist|references|mw-references-wrap|hatnote|metadata|ambox|error"
    r"|mwe-math-element|toc|sistersitebox|catlinks)(?!\S)"
)
_SEPARATING = re.compile(
    r"address|article|aside|blockquote|br|d[dlt]|details|div|fieldset|footer|form|h[1-6r]|header|li|main|[ou]l|pre|section|summary|table|t[dhr]"
)
_BRACKETED = re.compile(r"\s*\[.*\]\s*", re.DOTALL)


def read_html(markup: str) -> SourceDocument:
    """Read a whole HTML document or a piece of one.

    Raises
    ------
    InputError
        The extra `benchmarks` is not installed.
    """
    _require("lxml", "reading HTML")
    import lxml.etree
    import lxml.html

    markup = markup.replace("\0", "")
    if not markup.strip():
        return SourceDocument("")
    parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = lxml.html.document_fromstring(markup.encode("utf-8", errors="replace"), parser=parser)
    except lxml.etree.LxmlError:
        return SourceDocument("")
    title = tidy(root.xpath("string((//title | //h1)[1])"))
    for element in list(_elements(root)):
        if _is_unread(element) and element.getparent() is not None:  # emptied rather than removed, which would join ever longer texts
            element.clear(keep_tail=True)
            element.tag = "span"
        elif element.tag == "br":
            element.text = "\n"
    blocks = list(_blocks(root))
    text = join_paragraphs(block.text_content() for block in blocks) or _all_text(root)
    return SourceDocument(text, title or None, links=tuple(_links(block for block in blocks if block.tag == "p")))


def _require(module: str, purpose: str) -> None:
    """Raise InputError, naming the extra, where a library for reading documents is not installed."""
    if find_spec(module) is None:
        raise InputError(f'{purpose} needs a library that is not installed: pip install "tiltmeter[benchmarks]"')


def _elements(root: Any) -> Iterator[Any]:
    """The root and all below it, without what is no element (processing instructions)."""
    return (element for element in root.iter() if isinstance(element.tag, str))


def _classes(element: Any) -> set[str]:
    return set((element.get("class") or "").split())


def _is_unread(element: Any) -> bool:
    if element.tag in _UNREAD or _UNREAD_CLASS.search(element.get("class") or "") or element.get("role") == "navigation":
        return True
    return element.tag == "sup" and bool(_BRACKETED.fullmatch(element.text_content()))


def _blocks(root: Any) -> Iterator[Any]:
    """Paragraphs and captions, none inside another."""
    inside: set[Any] = set()
    for element in _elements(root):
        if element not in inside and (element.tag in _BLOCKS or _classes(element) & _CAPTION_CLASSES):
            inside.update(element.iterdescendants())
            yield element


def _all_text(root: Any) -> str:
    from lxml.etree import iterwalk

    pieces: list[str] = []
    for event, element in iterwalk(root, events=("start", "end")):
        separator = "\n\n" if _SEPARATING.fullmatch(str(element.tag)) else ""
        pieces += (separator, (element.text if event == "start" else element.tail) or "")
    return join_paragraphs("".join(pieces).split("\n\n"))


def _links(blocks: Iterable[Any]) -> Iterator[Link]:
    for block in blocks:
        for anchor in block.iter("a"):
            title, label = anchor.get("title"), tidy(anchor.text_content())
            if title and label and anchor.get("href") and not _classes(anchor) & {"new", "external", "extiw"}:
                yield Link(tidy(title), label)


# Markdown and PDF

_MARKS_READ = 200_000
"""Marks and line breaks of Markdown that are read: each takes its parser some twenty microseconds, so that more would take minutes."""
_MARK = re.compile(r"[^\w\s]|\n")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)


def _read_markdown(text: str) -> SourceDocument:
    _require("markdown_it", "reading Markdown")
    from markdown_it import MarkdownIt

    text = _FRONT_MATTER.sub("", text.replace("\r\n", "\n"), count=1)
    beyond = next(islice(_MARK.finditer(text), _MARKS_READ, None), None)
    note = None
    if beyond is not None:
        end = beyond.start()
        note = f"it holds very many marks of Markdown: only the first {end:,} of its {len(text):,} characters are read"
        text = text[:end]
    return read_html(MarkdownIt("commonmark").enable("table").render(text))._replace(note=note, links=())


def _read_pdf(data: bytes) -> SourceDocument:
    _require("pypdf", "reading PDF")
    import logging

    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # a page of warnings for each slightly odd file
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return SourceDocument(note="it is protected by a password")
        pages = [page.extract_text() for page in reader.pages]
    except Exception as error:  # damaged files fail in many ways
        return SourceDocument(note=f"it cannot be read as PDF ({type(error).__name__})")
    pieces: list[str] = []
    last = ""
    for page in pages:  # a sentence continues on the next page unless it has ended
        pieces += ("\n\n" if last in tuple(".!?:”\"'") else "\n", page)
        last = page.rstrip()[-1:] or last
    return SourceDocument(join_lines("".join(pieces), hyphenated=True))


# Pages of concepts


@dataclass(frozen=True, slots=True)
class SourcePage:
    """One page, file or article, or why there is none."""

    source: str
    """What it is cited by: a URL, or a path as it was given."""
    title: str
    text: str = ""
    status: Literal["ok", "missing", "disambiguation", "failed", "empty"] = "ok"
    problem: str | None = None
    """Why there is no text; of a page that is "ok", what of it was not read."""
    licence: str | None = None
    links: tuple[Link, ...] = ()
    """Links of the running text to existing articles of a wiki, in order."""


def page_of(source: str, title: str, document: SourceDocument, licence: str | None = None) -> SourcePage:
    """The page that is a document; `title` where it names none."""
    if document.text:
        return SourcePage(source, document.title or title, document.text, "ok", document.note, licence, document.links)
    status: Literal["failed", "empty"] = "failed" if document.note else "empty"
    return SourcePage(source, document.title or title, "", status, document.note or "it holds no text", licence)


@dataclass(frozen=True, slots=True)
class PageSet:
    """Pages found for concepts."""

    pages: DataFrame
    """PAGES: one row per page and concept."""
    texts: Mapping[str, str]
    """Text by source, for the pages whose status is "ok"."""
    links: Mapping[str, tuple[Link, ...]] = field(default_factory=dict)
    """Links in the running text by source, in order; only pages of a wiki have them."""


FoundPage = tuple[str, SourcePage, Mapping[str, Any]]
"""A concept, a page of it, and values of other columns of PAGES."""


def page_set(found: Sequence[FoundPage]) -> PageSet:
    """The set of the pages found, in order; one that a concept has several times is there once, and "ok" where it is so in any of them."""
    rows = [{name: getattr(page, name, None) for name in PAGES} | {"concept": concept, "depth": 0, **more} for concept, page, more in found]
    table = DataFrame(rows, schema=PAGES).with_row_index("place")
    best = table.sort(col.status != "ok", "place").unique(["concept", "source"], keep="first", maintain_order=True)
    usable = {page.source: page for _, page, _ in found if page.status == "ok"}
    texts, links = ({source: getattr(page, name) for source, page in usable.items()} for name in ("text", "links"))
    return PageSet(best.sort("place").drop("place"), texts, links)


# Files


def read_files(paths: Mapping[str, Sequence[str]], *, licence: str | None = None, home: Path = Path()) -> list[FoundPage]:
    """Read files, or all files in folders, for each concept; a file that several concepts name is read once.

    Parameters
    ----------
    paths
        Concept -> files and folders. Of a JSON file {group: {title: [sentences]}} a concept gets the group of its own name (case,
        hyphens and underscores do not matter).
    licence
        Of these files, noted with each.
    home
        Folder to which the paths are relative.

    Returns
    -------
    The source of a file is its path as it was given, of a text in a JSON file that path, "#", its group, "/", its title.
    A file that cannot be read is a row with status "failed".

    Raises
    ------
    InputError
        There is no such file or folder, a folder holds no readable kind of file, a JSON file is not of that shape or has no such
        group, or the extra `benchmarks` is not installed.
    """

    @cache
    def read(file: Path) -> SourceDocument:
        try:
            return read_document(file.read_bytes(), KINDS[file.suffix.lower()])
        except OSError as error:
            return SourceDocument(note=f"it cannot be read: {error.strerror}")

    groups = cache(_read_groups)
    found: list[FoundPage] = []
    files = [(concept, file) for concept, names in paths.items() for name in names for file in _files_of(home / name, concept)]
    for concept, file in files:
        source = str(file.relative_to(home) if file.is_relative_to(home) else file)
        if file.suffix.lower() != ".json":
            found.append((concept, page_of(source, file.stem, read(file), licence), {"source_tag": "local"}))
            continue
        for title, texts in _group_of(file, groups(file), concept).items():
            # Each text stays a paragraph: it was split into sentences already.
            document = SourceDocument(join_paragraphs([texts] if isinstance(texts, str) else texts))
            page = page_of(f"{source}#{title}", title.partition("/")[2].replace("_", " "), document, licence)
            found.append((concept, page, {"source_tag": "local"}))
    return found


def _files_of(path: Path, concept: str) -> list[Path]:
    """The file, or the readable files of a folder."""
    kinds = (*KINDS, ".json")
    if not path.exists():
        raise InputError(f"there is no file or folder {path}, which is given as a source of {concept!r}")
    found = sorted(one for one in (path.rglob("*") if path.is_dir() else [path]) if one.suffix.lower() in kinds and one.is_file())
    if not found:
        raise InputError(f"{path} (a source of {concept!r}) is, or holds, no file of a kind that can be read ({', '.join(kinds)})")
    return found


_Groups = dict[str, dict[str, str | list[str]]]


def _read_groups(path: Path) -> _Groups:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(_Groups).validate_json(path.read_bytes(), strict=True)
    except (OSError, ValidationError):
        raise InputError(f"{path} is not of the shape {{group: {{title: [sentences]}}}}, which JSON sources must have") from None


def _group_of(path: Path, groups: _Groups, concept: str) -> dict[str, str | list[str]]:
    """The texts of the concept's group, by group and title."""
    letters = {re.sub(r"[\W_]+", "", name).casefold(): name for name in reversed(groups)}
    group = letters.get(re.sub(r"[\W_]+", "", concept).casefold())
    if group is None:
        raise InputError(f"{path} has no group for the concept {concept!r}: {did_you_mean(concept, list(groups))}")
    return {f"{group}/{title}": text for title, text in groups[group].items()}


# Articles written by a model


def write_articles(judge: Judge, concepts: Sequence[str], *, domain: str, words: int) -> list[FoundPage]:
    """Have a model write an article about each concept.

    Parameters
    ----------
    words
        Length asked for; what is written is kept whatever its length.

    Returns
    -------
    An article that was declined or failed is a row with status "failed". The source names the model.

    Raises
    ------
    Unfinished
        The judge was interrupted.
    """
    template = templates("sources", "article")["prompt"]
    prompts = [fill_template(template, concept=concept, domain=domain, words=str(words)) for concept in concepts]
    answers = ask_all(judge, [(Message("user", prompt),) for prompt in prompts])
    declines_each = refused_text(Series([answer.text for answer in answers], dtype=String))
    found: list[FoundPage] = []
    for concept, (text, problem), declines in zip(concepts, answers, declines_each, strict=True):
        document = SourceDocument(note=problem or ("the model declines to write it" if declines else None))
        if not document.note:
            document = read_document(text.encode("utf-8", errors="replace"), "md")._replace(title=None)
            document = document if document.text else SourceDocument(note="the model wrote nothing")
        found.append((concept, page_of(f"written by {judge.name}: {concept}", concept, document), {"source_tag": "written"}))
    return found
