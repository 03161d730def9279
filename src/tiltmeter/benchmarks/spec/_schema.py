"""The spec described for editors, as JSON Schema."""

from __future__ import annotations

import json

from tiltmeter.benchmarks.spec._document import Spec

__all__ = ["schema_json"]


def schema_json() -> str:
    """The JSON schema of a spec (draft 2020-12), as it stands in `schema.json` beside this module.

    An editor completes and checks a spec that begins with `# yaml-language-server: $schema=PATH`.
    """
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Spec.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
