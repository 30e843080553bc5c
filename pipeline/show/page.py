"""A page of Markdown: drawn where the terminal can, as it is written where it goes into a file."""

from __future__ import annotations

import importlib

from rich.text import Text

from pipeline.show.console import open_console


def show_page(markdown: str) -> None:
    """The page is on stdout."""
    out = open_console()
    if out.is_terminal:  # only there is it worth loading what draws it
        out.print(importlib.import_module("rich.markdown").Markdown(markdown))
    else:
        out.print(Text(markdown), soft_wrap=True)
