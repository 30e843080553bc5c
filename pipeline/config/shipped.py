"""The shipped configs, data and manual: in the checkout, or inside the installed package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parent


def shipped_configs() -> Path:
    """Return the folder of the shipped configs/*.yaml and configs/hosts/*.yaml."""
    return _first(_PACKAGE / "shipped" / "configs", _CHECKOUT / "configs")


def place_of(path: Path, cwd: Path) -> str:
    """Return the path of a config for a table: relative to `cwd`, or "shipped" for a file that comes with halfstep."""
    if path.is_relative_to(cwd):
        return str(path.relative_to(cwd))
    return "shipped" if path.is_relative_to(shipped_configs()) else str(path)


def shipped_data(name: str) -> Path | None:
    """Return the folder of a shipped data set, or None if no shipped data set has that name."""
    if name != "tiny-speech":
        return None
    return _first(_PACKAGE / "shipped" / name, _CHECKOUT / "examples" / name)


def shipped_docs() -> Path:
    """Return the folder of the manual."""
    return _first(_PACKAGE / "shipped" / "docs", _CHECKOUT / "docs")


def _first(*choices: Path) -> Path:
    return next((path for path in choices if path.is_dir()), choices[-1])
