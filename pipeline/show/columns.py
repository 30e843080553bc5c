"""Choose the columns of a table that fit the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

GAP = 2


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
