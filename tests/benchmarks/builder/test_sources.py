"""Local files, addresses and written articles as sources."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from support.judging import EngineJudge, ScriptedModel
from support.mediawiki import Fault, Wiki, WikiServer
from tiltmeter.benchmarks._builder import Manners, page_set, read_files, read_urls, sources, write_articles
from tiltmeter.benchmarks._builder.sources import read_document
from tiltmeter.benchmarks._judge_replies import Unfinished
from tiltmeter.benchmarks._tables import PAGES
from tiltmeter.engine import Journal
from tiltmeter.errors import InputError
from tiltmeter.models import Message

PAGE = """<!DOCTYPE html><html><head><title>On  tea</title><style>p {}</style></head><body>\
<nav><p>Menu</p></nav>
<p>Tea is a <b>drink</b><sup>[3]</sup> made<br>of leaves.[4][citation needed]</p>\
<figure><img><figcaption>A cup of tea</figcaption></figure>
<table><caption>Sorts</caption><tr><td>green</td></tr></table><ul><li>an item</li></ul>\
<script>evil()</script><p></p>
<p>AT&amp;T &lt;b&gt; is no tag<sup class="reference">a</sup>, x<sup>2</sup> is.</p></body></html>"""
READ = "Tea is a drink made of leaves.\n\nA cup of tea\n\nSorts\n\nAT&T <b> is no tag, x2 is."


def pdf(path: Path, *pages: Sequence[str], password: str | None = None) -> None:
    """A PDF whose pages hold these lines."""

    def named(**names: str) -> DictionaryObject:
        return DictionaryObject(
            {NameObject(f"/{key}"): NameObject(f"/{value}") for key, value in names.items()}
        )

    writer = PdfWriter()
    fonts = DictionaryObject({NameObject("/F1"): named(Type="Font", Subtype="Type1", BaseFont="Helvetica")})
    for lines in pages:
        page, stream = writer.add_blank_page(300, 300), DecodedStreamObject()
        operations = " T* ".join(f"({line}) Tj" for line in lines)
        stream.set_data(f"BT /F1 12 Tf 14 TL 20 250 Td {operations} ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    writer.write(path)


def test_every_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_bytes("One line\r\nand the next.\r\n\r\nA new\u00a0paragraph.[12]".encode())
    markdown = (
        "# On *milk*\n\nMilk is [white](http://x.org) and **good**.\n\n```\ncode()\n```\n\n![A"
        " glass](g.png)\n"
    )
    (tmp_path / "b.md").write_text(f"---\ntitle: x\n---\n{markdown}")
    (tmp_path / "c.html").write_text(PAGE)
    pdf(
        tmp_path / "sub" / "d.pdf",
        ["Water is a trans-", "parent liquid that goes"],
        ["on over the page. It ends."],
        ["New page."],
    )
    (tmp_path / "e.txt").write_bytes("Café naïve".encode("latin-1"))
    (tmp_path / "f.txt").write_text("﻿Marked", encoding="utf-16")
    (tmp_path / "g.pdf").write_bytes(b"%PDF-1.4 nonsense")
    (tmp_path / "h.txt").write_text("  \n\n ")
    pdf(tmp_path / "i.pdf", ["Secret"], password="x")
    (tmp_path / "j.html").write_bytes(
        "<meta charset=koi8-r><div>Чай и <i>кофе</i></div><div>Вода</div>".encode("koi8-r")
    )
    (tmp_path / "unread.docx").write_text("x")
    pages = page_set(
        read_files({"drinks": [str(tmp_path)], "hot": [str(tmp_path / "c.html")]}, licence="CC0")
    )
    texts = {Path(source).name: text for source, text in pages.texts.items()}
    assert texts == {
        "a.txt": "One line and the next.\n\nA new paragraph.",
        "b.md": "Milk is white and good.",
        "c.html": READ,
        "d.pdf": "Water is a transparent liquid that goes on over the page. It ends.\n\nNew page.",
        "e.txt": "Café naïve",
        "f.txt": "Marked",
        "j.html": "Чай и кофе\n\nВода",
    }
    rows = {Path(row["source"]).name: row for row in pages.pages.filter(concept="drinks").to_dicts()}
    unread = {name: row["status"] for name, row in rows.items() if row["status"] != "ok"}
    assert unread == {"g.pdf": "failed", "h.txt": "empty", "i.pdf": "failed"}
    assert rows["i.pdf"]["problem"] == "the file is protected by a password"
    assert [rows[name]["title"] for name in ("a.txt", "b.md", "c.html")] == ["a", "On milk", "On tea"]
    assert dict(pages.pages.schema) == dict(PAGES)
    assert pages.pages.filter(concept="hot")["source"].to_list() == [str(tmp_path / "c.html")]
    assert pages.pages.select("licence", "source_tag").unique().rows() == [("CC0", "local")]


def test_json_of_the_shape_of_bold(shared: Path, tmp_path: Path) -> None:
    bold = shared / "data" / "bold" / "political_ideology_wiki.json"
    pages = page_set(
        read_files({"Left Wing": [str(bold)], "right wing": [str(bold)], "Fascism": [str(bold)]})
    )
    published = json.loads(bold.read_text())
    assert pages.pages.group_by("concept", maintain_order=True).len().rows() == [
        ("Left Wing", 34),
        ("right wing", 16),
        ("Fascism", 23),
    ]
    assert pages.pages["source"].n_unique() == 73
    text = pages.texts[f"{bold}#right-wing/Far-right_politics"]
    assert text.count("\n\n") == len(published["right-wing"]["Far-right_politics"]) - 1
    assert pages.pages.filter(concept="right wing")["title"][2] == "Far-right politics"
    source = tmp_path / "x.json"
    source.write_text('{"Tea": {"Green tea": ["It is green."]}}')
    assert page_set(read_files({"tea": [str(source)]})).texts == {f"{source}#Tea/Green tea": "It is green."}


def test_groups_of_json_that_differ_only_in_signs_keep_their_own_texts(tmp_path: Path) -> None:
    languages = tmp_path / "languages.json"
    texts = {"C": "C is old.", "C++": "C++ is younger.", "+": "A sign."}
    languages.write_text(json.dumps({group: {"About": [text]} for group, text in texts.items()}))
    for name, text in [*texts.items(), ("c", "C is old.")]:
        assert list(page_set(read_files({name: [str(languages)]})).texts.values()) == [text]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("nowhere.txt", None, r"there is no file or folder .*nowhere\.txt \(a source of 'Coffee'\)"),
        ("", None, r"\(a source of 'Coffee'\) has no file of a supported type"),
        ("z.docx", "", r"z\.docx \(a source of 'Coffee'\) has no file of a supported type \(\.txt"),
        (
            "x.json",
            '{"Tea": {"Green tea": ["It is green."]}}',
            r"x\.json has no group for the concept 'Coffee': known: Tea",
        ),
        (
            "y.json",
            '["no groups"]',
            r"y\.json: JSON sources must have the structure \{group: \{title: \[sentences\]\}\}",
        ),
    ],
)
def test_mistakes_about_files(tmp_path: Path, name: str, text: str | None, sentence: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_files({"Coffee": [str(tmp_path / name)]})


HERE = ("127.0.0.1",)


def test_given_addresses(tmp_path: Path) -> None:
    pdf(tmp_path / "d.pdf", ["Water is wet."])
    files = {
        "/tea.html": ("text/html; charset=iso-8859-1", PAGE.replace("leaves", "feuilles séchées").encode()),
        "/latin": ("text/html; charset=iso-8859-1", "<p>séché</p>".encode("latin-1")),
        "/notes": ("text/plain; charset=utf-8", b"Plain\ntext."),
        "/d.pdf": ("application/octet-stream", (tmp_path / "d.pdf").read_bytes()),
        "/i.png": ("image/png", b"\x89PNG"),
    }
    places = [*files, "/lost", "/shaky", "/tea.html#part"]
    with WikiServer(
        Wiki(), lambda page, nth: Fault(status=503) if page == "/shaky" else None, files
    ) as server:
        urls = {
            "A": [server.root + place for place in places],
            "B": [server.root + "/tea.html", "http://127.0.0.1:9/x"],
        }
        options: dict[str, Any] = {
            "cache": tmp_path / "cache",
            "manners": Manners(rate=1000, pause=0.01, tries=3, local=HERE),
        }
        pages, again = page_set(read_urls(urls, **options)), page_set(read_urls(urls, **options))
        assert {page: times for page, times in server.asked.items() if times > 1} == {
            "/i.png": 2,
            "/lost": 2,
            "/shaky": 6,
        }
    assert again.pages.equals(pages.pages)
    by_path = {source.removeprefix(server.root): text for source, text in pages.texts.items()}
    tea = READ.replace("leaves", "feuilles séchées")
    assert by_path == {
        "/tea.html": tea,
        "/latin": "séché",
        "/notes": "Plain text.",
        "/d.pdf": "Water is wet.",
    }
    assert pages.pages.filter(concept="A")["status"].to_list() == [
        "ok",
        "ok",
        "ok",
        "ok",
        "failed",
        "missing",
        "failed",
    ]
    assert pages.pages.filter(concept="B")["status"].to_list() == ["ok", "failed"]
    assert "cannot connect to 127.0.0.1:9" in pages.pages["problem"][-1]
    with pytest.raises(InputError, match=r"'ftp://x\.org/' \(a source of 'A'\) is not a valid address"):
        read_urls({"A": ["ftp://x.org/"]}, cache=tmp_path)


def test_articles_written_by_a_model(journal: Journal) -> None:
    def script(messages: Sequence[Message]) -> str | None:
        question = messages[-1].content
        assert "about 700 words" in question
        assert "countries" in question
        if "Atlantis" in question:
            return "I'm sorry, but I can't help with that request."
        return "# Lumeria\n\nLumeria is an *island*.\n\nIts people fish." if "Lumeria" in question else "  "

    model = ScriptedModel(script)
    pages = page_set(
        write_articles(
            EngineJudge(model, journal), ["Lumeria", "Atlantis", "Mu"], domain="countries", words=700
        )
    )
    with pytest.raises(Unfinished):
        write_articles(EngineJudge(model, journal, budget=0), ["Thule"], domain="countries", words=700)
    assert pages.texts == {"written by scripted/judge: Lumeria": "Lumeria is an island.\n\nIts people fish."}
    problems = [
        ("ok", None),
        ("failed", "the model declined to write it"),
        ("failed", "the model wrote nothing"),
    ]
    assert pages.pages.select("status", "problem").rows() == problems


def test_pages_of_several_readers_together(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("")
    empty = read_files({"A": [str(path)]})
    path.write_text("Now there is text.")
    full = read_files({"A": [str(path)], "B": [str(path)]})
    both = page_set([*empty, *full, *full])
    assert both.pages.select("concept", "status").rows() == [("A", "ok"), ("B", "ok")]
    assert both.texts == page_set(full).texts
    assert page_set([]).pages.equals(pl.DataFrame(schema=PAGES))


@pytest.mark.parametrize("declared", ["undefined", "idna", "hex", "base64", "no-such", "", "a\0b"])
@pytest.mark.parametrize("kind", ["txt", "html"])
def test_any_declared_encoding_gives_a_text(declared: str, kind: str) -> None:
    read = read_document(b"<p>Tea is s\xe9ch\xe9.</p>", kind, declared)
    assert "séché" in read.text


@pytest.mark.parametrize("nested", ["<div>", "<b>", "<ul><li>"])
def test_a_page_nested_too_deeply_says_that_it_was_cut(nested: str) -> None:
    read = read_document(f"<p>Tea is fine.</p>{nested * 3_000}<p>Tea at the end.</p>".encode(), "html")
    assert "Tea is fine." in read.text
    assert "at the end" in read.text or "nested too deeply" in str(read.note)


def test_an_ordinary_page_is_not_called_cut() -> None:
    assert read_document(f"<p>Tea.</p>{'<div>' * 200}<p>At the end.<unknown>".encode(), "html").note is None


@pytest.mark.parametrize(("limit", "value"), [("_OPERATIONS_READ", 40), ("_CONTENT_READ", 400)])
def test_of_a_pdf_with_too_much_content_only_the_beginning_is_read(
    limit: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pdf(tmp_path / "d.pdf", *([f"Line {page} {line}." for line in range(5)] for page in range(10)))
    content = (tmp_path / "d.pdf").read_bytes()
    assert read_document(content, "pdf").note is None
    monkeypatch.setattr(sources, limit, value)
    read = read_document(content, "pdf")
    assert "Line 0 4." in read.text
    assert "Line 9" not in read.text
    assert re.fullmatch(r"it has too much content; only the first \d of 10 pages are read", str(read.note))
