from .exporting import FORMATS as FORMATS, Format as Format, export as export
from .requests import ExportRequest as ExportRequest
