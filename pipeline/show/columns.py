"""Lay out a table: choose the columns that fit the terminal, and wrap what does not fit between words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from pipeline.show.wrapping import wrap_text, wrap_words

GAP = 2
BELOW = 4
"""The indentation of cells that are printed below the first cell of their row."""


def fitting_columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[str], width: int
) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows without the columns in `optional` that are empty or do not fit into `width`.

    Columns are removed in the order of `optional`.
    """
    columns = list(zip(headings, *rows, strict=True))
    columns = [column for column in columns if column[0] not in optional or any(column[1:])]
    for name in optional:
        if sum(max(map(cell_len, column)) + GAP for column in columns) - GAP <= width:
            break
        columns = [column for column in columns if column[0] != name]
    left = [list(row) for row in zip(*columns, strict=True)]
    return left[0], left[1:]


def table_rows(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Return the lines of each row, aligned in columns. With a `width` of 0, each row is one line.

    The last cell is wrapped between words. If a word of the last cell does not fit beside the other cells, the cell is
    printed below them. If the other cells of a row do not fit on one line, only the first cell of each row stays on it.
    """
    widths = [max(map(cell_len, column)) + GAP for column in zip(*rows, strict=True)][:-1]
    starts = ["".join(map(set_cell_size, row[:-1], widths)) for row in rows]
    if width and max(cell_len(start.rstrip()) for start in starts) > width:
        return [_below(row[0], row[1:], width) for row in rows]
    return [_lines(start, row[-1], sum(widths), width) for start, row in zip(starts, rows, strict=True)]


def _lines(start: str, last: str, indent: int, width: int) -> list[str]:
    if not width:
        return [f"{start}{last}".rstrip()]
    if max(map(cell_len, last.split()), default=0) > width - indent:
        return _below(start.rstrip(), [last], width)
    first, *rest = wrap_words(last, width - indent)
    return [f"{start}{first}".rstrip(), *(f"{'':<{indent}}{line}" for line in rest)]


def _below(first: str, cells: Sequence[str], width: int) -> list[str]:
    return [first, *(f"{'':<{BELOW}}{line}" for cell in cells for line in wrap_text(cell, width - BELOW, width))]
