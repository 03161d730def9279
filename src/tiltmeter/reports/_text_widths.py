"""Widths of texts in figures, and line breaks.

Figures name Arial, Helvetica and Liberation Sans, whose characters have the same widths. With these widths,
a figure can be laid out before it is drawn, and its texts keep their widths where none of the fonts is
installed.
"""

from __future__ import annotations

from collections.abc import Mapping

REGULAR: Mapping[int, str] = {
    191: "'",
    222: "ijl’‘",
    260: "|",
    278: " !,./:;I[\\]ft·í",
    333: "()-`r“”",
    334: "{}",
    355: '"',
    389: "*",
    400: "°",
    469: "^",
    500: "Jcksvxyzç",
    549: "≤≥±",
    556: "#$0123456789?L_abdeghnopqu–äöüéèáóñ",
    584: "+<=>~−×",
    611: "FTZß",
    667: "&ABEKPSVXY",
    722: "CDHNRUw",
    778: "GOQ",
    833: "Mm",
    889: "%",
    944: "W",
    1000: "…→←",
    1015: "@",
}
"""Characters by their width, in thousandths of the font size."""
BOLD: Mapping[int, str] = {
    238: "'",
    278: " ,./I\\ijl’‘·í",
    280: "|",
    333: "!()-:;[]`ft",
    389: "*r{}",
    400: "°",
    474: '"',
    500: "z“”",
    549: "≤≥±",
    556: "#$0123456789J_aceksvxy–äéèáç",
    584: "+<=>^~−×",
    611: "?FLTZbdghnopquöüßóñ",
    667: "EPSVXY",
    722: "&ABCDHKNRU",
    778: "GOQw",
    833: "M",
    889: "%m",
    944: "W",
    975: "@",
    1000: "…→←",
}
"""The same for bold characters."""
UNKNOWN = 1000
"""Width that is assumed for any other character, the largest of most scripts."""


def _by_character(widths: Mapping[int, str]) -> dict[str, int]:
    return {character: width for width, characters in widths.items() for character in characters}


_REGULAR = _by_character(REGULAR)
_BOLD = _by_character(BOLD)


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of a text on one line, in the unit of the font size."""
    widths = _BOLD if bold else _REGULAR
    return sum(widths.get(character, UNKNOWN) for character in text) * size / 1000


def has_known_width(text: str, *, bold: bool = False) -> bool:
    """Return whether the widths of all characters of a text are known."""
    return set(text) <= (_BOLD if bold else _REGULAR).keys()


def wrapped(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """Break a text into lines that are at most `width` wide.

    A word that is wider is broken, too, so that nothing is cut.
    """
    lines: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if text_width(longer, size, bold=bold) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        *full, line = _pieces(word, width, size, bold=bold)
        lines += full
    return [*lines, line] if line or not lines else lines


def _pieces(word: str, width: float, size: float, *, bold: bool) -> list[str]:
    """Break a word into pieces that are at most `width` wide, if possible after one of "-/_"."""
    pieces = []
    rest = word
    while text_width(rest, size, bold=bold) > width and len(rest) > 1:
        end = len(rest) - 1
        while end > 1 and text_width(rest[:end], size, bold=bold) > width:
            end -= 1
        after_mark = max(rest.rfind(mark, 1, end) for mark in "-/_") + 1
        if after_mark > end // 2:
            end = after_mark
        pieces.append(rest[:end])
        rest = rest[end:]
    return [*pieces, rest]
