"""Where the files that come with halfstep lie: beside the checkout, or inside the installed package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parent


def shipped_configs() -> Path:
    """The folder of configs/*.yaml and configs/hosts/*.yaml that come with halfstep."""
    return _first(_PACKAGE / "shipped" / "configs", _CHECKOUT / "configs")


def shipped_data(name: str) -> Path | None:
    """The folder of a data set that comes with halfstep, or None where there is none of that name."""
    if name != "tiny-speech":
        return None
    return _first(_PACKAGE / "shipped" / name, _CHECKOUT / "examples" / name)


def _first(*choices: Path) -> Path:
    return next((path for path in choices if path.is_dir()), choices[-1])
