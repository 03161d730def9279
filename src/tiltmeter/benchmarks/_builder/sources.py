"""Sources of sentences: documents, local files, and articles written by a model.

Documents are HTML, Markdown, PDF or plain text. Texts are paragraphs separated by an empty line, with
normalised white space and without reference marks. From HTML, paragraphs and captions are extracted, or all
text if there are none. Input is untrusted: it is never executed, and parsing takes time proportional to its
length.
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

from tiltmeter.benchmarks._judge_replies import ask_all, templates
from tiltmeter.benchmarks._tables import PAGES
from tiltmeter.designs.wordings import fill_template
from tiltmeter.errors import InputError, did_you_mean
from tiltmeter.readers import refused_text
from tiltmeter.study import Judge

KINDS = {
    ".txt": "txt",
    ".text": "txt",
    ".md": "md",
    ".markdown": "md",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
}
"""Kind of a document by the suffix of its file name."""


class Link(NamedTuple):
    """A hyperlink in the running text of a page."""

    title: str
    """Title of the linked page."""
    label: str
    """Text of the link."""


class SourceDocument(NamedTuple):
    """The text of a document, and its title if it has one."""

    text: str = ""
    title: str | None = None
    note: str | None = None
    """Which part was not read, and why; for a document without text, why it cannot be read."""
    links: tuple[Link, ...] = ()
    """Links in HTML paragraphs with the title of the linked page, as in wikis, except links to missing pages.
    """


def read_document(data: bytes, kind: str, declared: str | None = None) -> SourceDocument:
    """Read a document; damaged or encrypted documents have a note and no text.

    Parameters
    ----------
    data
        Content of the document.
    kind
        One of the kinds in KINDS.
    declared
        Encoding declared by the server, for bytes that are not UTF-8.

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
        return SourceDocument(note="the file is not text")
    return _read_markdown(text) if kind == "md" else SourceDocument(join_lines(text))


# Plain text

# White space is matched at the start of a run only, so that matching takes linear time.
_REFERENCE_MARK = re.compile(
    r"(?<!\s)\s*+\[(?:\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*|(?:note|nb|n\.b\.)\s?\d{1,3}"
    r"|(?:additional |better )?(?:citations?|sources?|references?|page|clarification|quotation|attribution)"
    r" needed"
    r"|citation required|dead link|edit|by whom\??|who\??|when\??|where\??|verify|sic)\]",
    re.IGNORECASE,
)
_EMPTY_BRACKETS = re.compile(r"(?<!\s)\s*+\(\s*+(?:[;,:]\s*+)?\)")  # left over from removed pronunciations
_INVISIBLE = dict.fromkeys(
    (*range(0x09), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0), 0xAD, 0x200B, 0x2060, 0xFEFF)
)
_EMPTY_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_HYPHENATED = re.compile(r"(?<=[^\W\d_])[-‐\u00ad]\n(?=[^\W\d_])")


def tidy(text: str) -> str:
    """Normalise a paragraph to a single line.

    Characters are composed and spaces single; reference marks and invisible characters are removed.
    """
    text = unicodedata.normalize("NFC", text).translate(_INVISIBLE)
    text = _EMPTY_BRACKETS.sub("", _REFERENCE_MARK.sub("", text))
    return " ".join(text.encode("utf-8", errors="replace").decode("utf-8").split())


def join_paragraphs(pieces: Iterable[str]) -> str:
    """Normalise the pieces and join those that are not empty as paragraphs."""
    return "\n\n".join(filter(None, map(tidy, pieces)))


def join_lines(text: str, *, hyphenated: bool = False) -> str:
    """Join the lines of a text with hard line breaks; empty lines separate paragraphs.

    With `hyphenated`, words hyphenated at the end of a line are joined, as in printed pages.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n\n").replace("\u2029", "\n\n")
    if hyphenated:
        text = _HYPHENATED.sub("", text)
    return join_paragraphs(_EMPTY_LINE.split(text))


def _decode(data: bytes, declared: str | None, *, is_html: bool) -> str:
    """Decode by byte order mark, as UTF-8 (regardless of a header), as declared, or as Windows-1252.

    Never fails.
    """
    marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    for likely in ("utf-16" if marked else "utf-8-sig", "utf-8" if is_html else declared or "utf-8"):
        try:
            return data.decode(likely)
        except (ValueError, LookupError):  # not in this encoding, or not the name of an encoding of texts
            continue
    if not is_html:
        return data.decode("windows-1252", errors="replace")
    _require("bs4", "reading HTML")
    from bs4.dammit import UnicodeDammit

    encodings = [declared] if declared else []
    return UnicodeDammit(data, user_encodings=encodings, is_html=True).unicode_markup or ""


# HTML

_BLOCKS = frozenset({"p", "figcaption", "caption"})
_CAPTION_CLASSES = frozenset({"thumbcaption", "gallerytext", "infobox-caption"})
_UNREAD = frozenset(
    {
        "script",
        "style",
        "noscript",
        "template",
        "annotation",
        "math",
        "nav",
        "head",
        "svg",
        "iframe",
        "select",
        "button",
    }
)
_UNREAD_CLASS = re.compile(
    r"(?<!\S)(?:reference|noprint|mw-editsection|mw-cite-backlink|navbox|reflist|references"
    r"|mw-references-wrap|hatnote|metadata|ambox|error|mwe-math-element|toc|sistersitebox|catlinks)(?!\S)"
)
_SEPARATING = re.compile(
    r"address|article|aside|blockquote|br|d[dlt]|details|div|fieldset|footer|form|h[1-6r]|header|li|main"
    r"|[ou]l|pre|section|summary|table|t[dhr]"
)
_BRACKETED = re.compile(r"\s*\[.*\]\s*", re.DOTALL)


def read_html(markup: str) -> SourceDocument:
    """Read an HTML document or fragment.

    Raises
    ------
    InputError
        The extra `benchmarks` is not installed.
    """
    _require("lxml", "reading HTML")
    import lxml.etree
    import lxml.html

    parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = lxml.html.document_fromstring(
            markup.replace("\0", "").encode("utf-8", errors="replace"), parser=parser
        )
    except lxml.etree.LxmlError:  # it is empty
        return SourceDocument()
    is_cut = any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log)
    note = "its elements are nested too deeply; the page is read only up to there" if is_cut else None
    title = tidy(root.xpath("string((//title | //h1)[1])"))
    for element in list(_elements(root)):
        if _is_unread(element) and element.getparent() is not None:
            # Emptied and not removed, as removal joins ever longer texts.
            element.clear(keep_tail=True)
            element.tag = "span"
        elif element.tag == "br":
            element.text = "\n"
    blocks = list(_blocks(root))
    text = join_paragraphs(block.text_content() for block in blocks) or _all_text(root)
    links = _links(block for block in blocks if block.tag == "p")
    return SourceDocument(text, title or None, note, tuple(links))


def _require(module: str, purpose: str) -> None:
    """Raise InputError, with the name of the extra, if a library for reading documents is not installed."""
    if find_spec(module) is None:
        raise InputError(
            f'{purpose} requires a library that is not installed: pip install "tiltmeter[benchmarks]"'
        )


def _elements(root: Any) -> Iterator[Any]:
    """Yield the root and all its descendants, without processing instructions."""
    return (element for element in root.iter() if isinstance(element.tag, str))


def _is_unread(element: Any) -> bool:
    if (
        element.tag in _UNREAD
        or _UNREAD_CLASS.search(element.get("class") or "")
        or element.get("role") == "navigation"
    ):
        return True
    return element.tag == "sup" and bool(_BRACKETED.fullmatch(element.text_content()))


def _blocks(root: Any) -> Iterator[Any]:
    """Yield paragraphs and captions, without nested ones."""
    inside: set[Any] = set()
    for element in _elements(root):
        is_block = element.tag in _BLOCKS or not _CAPTION_CLASSES.isdisjoint(element.classes)
        if is_block and element not in inside:
            inside.update(element.iterdescendants())
            yield element


def _all_text(root: Any) -> str:
    """Return all text, with paragraphs where elements separate them."""
    from lxml.etree import iterwalk

    pieces: list[str] = []
    for event, element in iterwalk(root, events=("start", "end")):
        separator = "\n\n" if _SEPARATING.fullmatch(str(element.tag)) else ""
        pieces += (separator, (element.text if event == "start" else element.tail) or "")
    return join_paragraphs("".join(pieces).split("\n\n"))


def _links(blocks: Iterable[Any]) -> Iterator[Link]:
    """Yield the links to existing pages of the same wiki."""
    for block in blocks:
        for anchor in block.iter("a"):
            title = anchor.get("title")
            label = tidy(anchor.text_content())
            is_internal = anchor.classes.isdisjoint(("new", "external", "extiw"))
            if title and label and anchor.get("href") and is_internal:
                yield Link(tidy(title), label)


# Markdown and PDF

_OPERATIONS_READ = 1_000_000
"""Maximum number of operations of a PDF (text and drawing) that are read; each takes about twenty
microseconds."""
_CONTENT_READ = 20_000_000
"""Maximum size of the decoded contents of the pages of a PDF that are read, in bytes. A small file may have
very large contents."""

_MARKS_READ = 200_000
"""Maximum number of marks and line breaks of Markdown that are parsed; each takes about twenty microseconds.
"""
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
        note = f"it has too many Markdown marks; only the first {end:,} of {len(text):,} characters are read"
        text = text[:end]
    document = read_html(MarkdownIt("commonmark").enable("table").render(text))
    return document._replace(note=note or document.note, links=())


def _read_pdf(data: bytes) -> SourceDocument:
    _require("pypdf", "reading PDF")
    import logging

    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it logs many warnings for slightly invalid files
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return SourceDocument(note="the file is protected by a password")
        pages = _pages_read(reader)
    except Exception as error:  # damaged files fail in many ways
        return SourceDocument(note=f"the file is not a valid PDF ({type(error).__name__})")
    note = None
    if len(pages) < len(reader.pages):
        note = (
            f"it has too much content; only the first {len(pages):,} of {len(reader.pages):,} pages are read"
        )
    pieces: list[str] = []
    last = ""
    for page in pages:  # a sentence without an end continues on the next page
        pieces += ("\n\n" if last in tuple(".!?:”\"'") else "\n", page)
        last = page.rstrip()[-1:] or last
    return SourceDocument(join_lines("".join(pieces), hyphenated=True), note=note)


class _TooMuchError(Exception):
    """A PDF has more operations than are read."""


def _pages_read(reader: Any) -> list[str]:
    """Return the text of each page of a PDF, up to the limits of operations and of decoded content.

    The page beyond is left out.
    """
    operations = size = 0

    def count(*_: object) -> None:
        nonlocal operations
        operations += 1
        if operations > _OPERATIONS_READ:
            raise _TooMuchError

    pages: list[str] = []
    for page in reader.pages:
        contents = page.get_contents()
        size += 0 if contents is None else len(contents.get_data())
        if size > _CONTENT_READ:
            break
        try:
            pages.append(page.extract_text(visitor_operand_before=count))
        except _TooMuchError:
            break
    return pages


# Pages of concepts


@dataclass(frozen=True, slots=True)
class SourcePage:
    """A page, file or article, or the reason why it has no text."""

    source: str
    """URL, or path as given by the user."""
    title: str
    text: str = ""
    status: Literal["ok", "missing", "disambiguation", "failed", "empty"] = "ok"
    problem: str | None = None
    """Why there is no text; for an "ok" page, which part was not read."""
    licence: str | None = None
    links: tuple[Link, ...] = ()
    """Links in the running text to existing articles of a wiki, in order."""


def page_of(source: str, title: str, document: SourceDocument) -> SourcePage:
    """Convert a document to a page; `title` is used if the document has none."""
    title = document.title or title
    problem = document.note
    if document.text:
        return SourcePage(source, title, document.text, problem=problem, links=document.links)
    if problem:
        return SourcePage(source, title, status="failed", problem=problem)
    return SourcePage(source, title, status="empty", problem="it contains no text")


@dataclass(frozen=True, slots=True)
class PageSet:
    """The pages of all concepts."""

    pages: DataFrame
    """PAGES: one row per page and concept."""
    texts: Mapping[str, str]
    """Text by source, for pages with the status "ok"."""
    links: Mapping[str, tuple[Link, ...]] = field(default_factory=dict)
    """Links in the running text by source, in order; for pages of a wiki only."""


FoundPage = tuple[str, SourcePage, Mapping[str, Any]]
"""A concept, a page of it, and values of other columns of PAGES."""


def page_set(found: Sequence[FoundPage]) -> PageSet:
    """Collect pages in order.

    Duplicates of a concept's page are merged, with the status "ok" if any of them has it.
    """
    rows = [
        {name: getattr(page, name, None) for name in PAGES} | {"concept": concept, "depth": 0, **more}
        for concept, page, more in found
    ]
    table = DataFrame(rows, schema=PAGES).with_row_index("place")
    best = table.sort(col.status != "ok", "place").unique(
        ["concept", "source"], keep="first", maintain_order=True
    )
    usable = {page.source: page for _, page, _ in found if page.status == "ok"}
    return PageSet(
        best.sort("place").drop("place"),
        texts={source: page.text for source, page in usable.items()},
        links={source: page.links for source, page in usable.items()},
    )


# Files


def read_files(
    paths: Mapping[str, Sequence[str]], *, licence: str | None = None, home: Path = Path()
) -> list[FoundPage]:
    """Read files, or all files in folders, for each concept; files shared by concepts are read once.

    Parameters
    ----------
    paths
        Concept -> files and folders. From a JSON file {group: {title: [sentences]}}, a concept gets the group
        with its own name (ignoring case, hyphens and underscores).
    licence
        Licence of these files, recorded with each.
    home
        Folder to which the paths are relative.

    Returns
    -------
    One page per file, or per text of a JSON file. The source is the path as given; for JSON,
    "PATH#GROUP/TITLE". Files that cannot be read have the status "failed".

    Raises
    ------
    InputError
        There is no such file or folder, a folder has no file of a supported type, a JSON file has another
        structure or no such group, or the extra `benchmarks` is not installed.
    """

    @cache
    def read(file: Path) -> SourceDocument:
        try:
            return read_document(file.read_bytes(), KINDS[file.suffix.lower()])
        except OSError as error:
            return SourceDocument(note=f"the file cannot be read: {error.strerror}")

    groups = cache(_read_groups)
    columns = {"source_tag": "local", "licence": licence}
    files: list[tuple[str, Path]] = []
    for concept, names in paths.items():
        for name in names:
            files += [(concept, file) for file in _files_of(home / name, concept)]
    pages: list[FoundPage] = []
    for concept, file in files:
        source = str(file.relative_to(home) if file.is_relative_to(home) else file)
        if file.suffix.lower() != ".json":
            pages.append((concept, page_of(source, file.stem, read(file)), columns))
            continue
        for name, texts in _group_of(file, groups(file), concept).items():
            # Each sentence is kept as a paragraph, as the text is already split.
            document = SourceDocument(join_paragraphs([texts] if isinstance(texts, str) else texts))
            title = name.partition("/")[2].replace("_", " ")
            pages.append((concept, page_of(f"{source}#{name}", title, document), columns))
    return pages


def _files_of(path: Path, concept: str) -> list[Path]:
    """Return the file, or the files of supported types in a folder."""
    suffixes = (*KINDS, ".json")
    if not path.exists():
        raise InputError(f"there is no file or folder {path} (a source of {concept!r})")
    candidates = path.rglob("*") if path.is_dir() else [path]
    files = sorted(file for file in candidates if file.suffix.lower() in suffixes and file.is_file())
    if not files:
        raise InputError(
            f"{path} (a source of {concept!r}) has no file of a supported type ({', '.join(suffixes)})"
        )
    return files


_Groups = dict[str, dict[str, str | list[str]]]


def _read_groups(path: Path) -> _Groups:
    """Read a JSON file {group: {title: [sentences]}}."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(_Groups).validate_json(path.read_bytes(), strict=True)
    except (OSError, ValidationError):
        raise InputError(
            f"{path}: JSON sources must have the structure {{group: {{title: [sentences]}}}}"
        ) from None


def _group_of(path: Path, groups: _Groups, concept: str) -> dict[str, str | list[str]]:
    """Return the texts of the concept's group, by "GROUP/TITLE".

    The group has the concept's name, or else its letters and digits in any case. "C" is not the group of
    "C++" if both exist.
    """
    letters = {_letters_of(name): name for name in reversed(groups)}
    group = concept if concept in groups else letters.get(_letters_of(concept))
    if group is None:
        raise InputError(
            f"{path} has no group for the concept {concept!r}: {did_you_mean(concept, list(groups))}"
        )
    return {f"{group}/{title}": text for title, text in groups[group].items()}


def _letters_of(name: str) -> str:
    """Return the letters and digits of a name in lower case; a name of signs only stays as it is."""
    return re.sub(r"[\W_]+", "", name).casefold() or name


# Articles written by a model


def write_articles(judge: Judge, concepts: Sequence[str], *, domain: str, words: int) -> list[FoundPage]:
    """Ask a model to write an article about each concept.

    Parameters
    ----------
    judge
        The model.
    concepts
        Names of the concepts.
    domain
        Subject of the concepts.
    words
        Requested length; articles of any length are accepted.

    Returns
    -------
    One page per concept, with the status "failed" if the model declined or failed. The source names the
    model.

    Raises
    ------
    Unfinished
        The judge was interrupted.
    """
    template = templates("sources", "article")["prompt"]
    prompts = [
        fill_template(template, concept=concept, domain=domain, words=str(words)) for concept in concepts
    ]
    answers = ask_all(judge, prompts)
    texts = [answer.value or "" for answer in answers]
    refusals = refused_text(Series(texts, dtype=String))
    pages: list[FoundPage] = []
    for concept, answer, text, is_refusal in zip(concepts, answers, texts, refusals, strict=True):
        if answer.problem:
            document = SourceDocument(note=answer.problem)
        elif is_refusal:
            document = SourceDocument(note="the model declined to write it")
        else:
            document = _read_article(text)
        page = page_of(f"written by {judge.name}: {concept}", concept, document)
        pages.append((concept, page, {"source_tag": "written"}))
    return pages


def _read_article(text: str) -> SourceDocument:
    """Read an article in Markdown; its title is not used."""
    document = read_document(text.encode("utf-8", errors="replace"), "md")
    if not document.text:
        return SourceDocument(note="the model wrote nothing")
    return document._replace(title=None)
