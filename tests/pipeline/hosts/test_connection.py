"""The connection to a host, and the error for an unknown host."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.hosts.connection import connected
from remote.errors import NameUnknown


@pytest.mark.parametrize(("unknown", "instead"), [("titn", ("titn", "titan")), ("gateway", None)])
def test_a_host_name_without_address_is_an_error_with_similar_names(
    tmp_path: Path, unknown: str, instead: tuple[str, str] | None
) -> None:
    with (
        pytest.raises(NameUnknown) as caught,
        connected(load_host("titn", tmp_path), keep=False),
    ):
        raise NameUnknown(f"cannot resolve {unknown}", where=unknown)
    assert caught.value.instead == instead
