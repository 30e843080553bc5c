"""The script and the style sheet for the curves, both embedded in the page."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

BROWSER = Path(__file__).with_name("browser")
NO_SCRIPT = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


@cache
def script() -> str:
    """Return uPlot with its licence, and the script that draws the curves with it."""
    licence = _read("uPlot.LICENSE").strip()
    return f"/*\n{licence}\n*/\n{_read('uPlot.iife.min.js')}\n{_read('curves.js')}"


@cache
def policy() -> str:
    """Return the content security policy of a page. The page loads nothing, and only `script()` runs."""
    digest = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    return f"{NO_SCRIPT}; script-src 'sha256-{digest}'"


@cache
def style() -> str:
    """Return the style sheet of a page."""
    own = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    return f"{_read('uPlot.min.css')}\n{own}"


def _read(name: str) -> str:
    return (BROWSER / name).read_text(encoding="utf-8")
