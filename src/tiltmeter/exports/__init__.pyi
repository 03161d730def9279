from .exporting import FORMATS as FORMATS, Format as Format, Wanted as Wanted, export as export
