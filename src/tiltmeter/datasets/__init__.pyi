from ._catalogue import Catalogue as Catalogue, Entry as Entry, load_catalogue as load_catalogue
from ._inventory import (
    Copy as Copy,
    Fetched as Fetched,
    check as check,
    fetch_all as fetch_all,
    first_use_notice as first_use_notice,
    notice as notice,
    status as status,
)
from ._library import (
    ENCODERS as ENCODERS,
    DataUnavailable as DataUnavailable,
    Library as Library,
    encoder_folder as encoder_folder,
)
