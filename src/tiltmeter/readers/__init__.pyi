from .character import read_character
from .choice import read_choice
from .normalising import without_thinking
from .outcomes import refused, refused_text
from .wording import count_vocabulary, read_decision, read_emotion, read_first_ranked
from .yes_no import read_yes_no

__all__ = [
    "count_vocabulary",
    "read_character",
    "read_choice",
    "read_decision",
    "read_emotion",
    "read_first_ranked",
    "read_yes_no",
    "refused",
    "refused_text",
    "without_thinking",
]
