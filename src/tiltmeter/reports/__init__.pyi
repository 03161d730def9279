from .charts import write_charts as write_charts
from .files import write_table as write_table, writing as writing
from .latex import as_latex as as_latex
from .layout import print_text as print_text
from .markdown import as_markdown as as_markdown
from .page import Report as Report, as_html as as_html, write_page as write_page
from .result import Result as Result
from .terminal import (
    print_blocks as print_blocks,
    print_evidence as print_evidence,
    print_json as print_json,
    print_plan as print_plan,
    print_problems as print_problems,
    print_rows as print_rows,
)
from .words import size as size
