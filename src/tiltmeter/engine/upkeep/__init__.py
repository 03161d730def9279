"""Maintenance of journals: statistics, pruning, export and import, integrity checks, and repair.

print(stats("runs/journal.sqlite").models)
export_rows("runs/journal.sqlite", "answers.parquet")
import_rows("answers.parquet", "postgresql+psycopg://user@host/name")
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
