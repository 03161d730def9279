from ._acceptance import read_accept
from ._character import read_character
from ._choice import read_choice
from ._normalising import without_thinking
from ._number import read_number
from ._wording import count_vocabulary, read_decision, read_emotion, read_first_group, read_first_ranked
from ._yes_no import read_yes_no
from .outcomes import refused, refused_text

__all__ = [
    "count_vocabulary",
    "read_accept",
    "read_character",
    "read_choice",
    "read_decision",
    "read_emotion",
    "read_first_group",
    "read_first_ranked",
    "read_number",
    "read_yes_no",
    "refused",
    "refused_text",
    "without_thinking",
]
