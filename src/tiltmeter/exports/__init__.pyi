from ._exporting import FORMATS as FORMATS, Format as Format, export as export
from ._requests import ExportRequest as ExportRequest
