"""All problems of a config are reported at once, whichever check finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.document import BadConfig
from pipeline.config.load import load_config


@pytest.mark.parametrize(
    ("text", "overrides", "found"),
    [
        (
            "precison: auto\nfixers: {enviroment: create, port: maybe}\ntrian: {}\n",
            (),
            [("precison", 1), ("fixers.enviroment", 2), ("fixers.port", 2), ("trian", 3)],
        ),
        ("fixers: {tokenizr: auto}\ntrain: {epochs: many}\n", (), [("fixers.tokenizr", 1), ("train.epochs", 2)]),
        ("project: nowhere\nfixers: {prot: auto}\n", (), [("project", 1), ("fixers.prot", 2)]),
        ("fixers: [port]\nprecison: auto\n", (), [("fixers", 1), ("precison", 2)]),
        ("precison: auto\n", ("fixers.prot=auto",), [("precison", 1), ("fixers.prot", 0)]),
    ],
)
def test_misspelt_keys_in_different_places_are_all_named(
    tmp_path: Path, text: str, overrides: tuple[str, ...], found: list[tuple[str, int]]
) -> None:
    (tmp_path / "configs").mkdir()
    path = tmp_path / "configs/mine.yaml"
    path.write_text(text)
    with pytest.raises(BadConfig) as caught:
        load_config("mine", tmp_path, overrides)
    named = [(one.message.partition(":")[0], one.where) for one in caught.value.findings]
    assert named == [(name, f"{path}:{line}" if line else "--set fixers.prot=auto") for name, line in found]
