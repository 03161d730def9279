from ._charts import write_charts as write_charts
from ._files import write_table as write_table, writing as writing
from ._glossary import Word as Word, all_words as all_words, known_names as known_names, word_of as word_of
from ._latex import as_latex as as_latex
from ._layout import print_text as print_text
from ._markdown import as_markdown as as_markdown
from ._page import Report as Report, as_html as as_html, write_page as write_page
from ._result import Result as Result
from ._screen import print_screen as print_screen
from ._terminal import (
    plan_document as plan_document,
    print_blocks as print_blocks,
    print_evidence as print_evidence,
    print_json as print_json,
    print_plan as print_plan,
    print_problems as print_problems,
    print_rows as print_rows,
)
from ._words import size as size
