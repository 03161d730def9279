"""The YAML file a benchmark is built from: read, checked strictly, and described for editors.

Import it only where a spec is read: Pydantic takes long.
"""

from tiltmeter.benchmarks.spec._document import Assemble, Branch, Concept, Descriptors, FindKeywords, Sources, Spec, Wikipedia, Written
from tiltmeter.benchmarks.spec._read import read_spec
from tiltmeter.benchmarks.spec._schema import schema_json

__all__ = [
    "Assemble",
    "Branch",
    "Concept",
    "Descriptors",
    "FindKeywords",
    "Sources",
    "Spec",
    "Wikipedia",
    "Written",
    "read_spec",
    "schema_json",
]
