from ._expansion import (
    MOST_PROMPTS as MOST_PROMPTS,
    attributes_of as attributes_of,
    first_slot as first_slot,
    swapped as swapped,
)
from ._lists import LISTS as LISTS, GroupList as GroupList, built_in_list as built_in_list
from ._people import described_person as described_person
from ._reading import read_prompts as read_prompts
from ._swap import VARIANT as VARIANT, Swap as Swap
