"""Show a Markdown page: rendered on a terminal, as source otherwise."""

from __future__ import annotations

import importlib

from rich.text import Text

from pipeline.show.console import open_console


def show_page(markdown: str) -> None:
    """Print the page to stdout."""
    out = open_console()
    if out.is_terminal:  # loading the renderer takes a while
        out.print(importlib.import_module("rich.markdown").Markdown(markdown))
    else:
        out.print(Text(markdown), soft_wrap=True)
