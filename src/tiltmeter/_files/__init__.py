"""Users' files: reading, safe writing, tables, YAML, records and paths."""
