from ._files import MarkedPrompts as MarkedPrompts, mark_prompts as mark_prompts
from ._suggestions import suggest as suggest
