"""Validate the `--json` output of a command against docs/schemas/output.schema.json."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schemas" / "output.schema.json"


@cache
def _validator() -> Any:
    library = importlib.import_module("jsonschema")
    schema = json.loads(SCHEMA.read_bytes())
    library.Draft202012Validator.check_schema(schema)
    return library.Draft202012Validator(schema)


def problems_of(answer: object) -> list[str]:
    """Return how the object differs from the schema."""
    return [f"{error.json_path}: {error.message}" for error in _validator().iter_errors(answer)]


def read_answer(printed: str) -> dict[str, Any]:
    """Return the printed object. Fails if it does not match the schema."""
    answer: dict[str, Any] = json.loads(printed)
    # tests/pipeline/messages/test_output_schema.py fails if the library is missing.
    assert importlib.util.find_spec("jsonschema") is None or problems_of(answer) == []
    return answer
