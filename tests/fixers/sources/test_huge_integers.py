"""An integer that Python cannot convert to text is refused where a file is parsed, so that no message fails later."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from fixers.sources.syntax import Oversized, parse_python
from fixers.sources.toml_text import parse_toml
from pipeline.cli.main import run

HUGE = ["0x" + "f" * 5000, "0b" + "1" * 20000, "0o" + "7" * 6000]


@pytest.mark.parametrize("literal", HUGE)
@pytest.mark.parametrize("code", ["x = {}\n", "foo[{}].train()\n", 'a = {{"bf16": [1, {}]}}\n'])
def test_SE_python_with_an_integer_of_more_than_4300_digits_is_too_large_to_be_analysed(
    literal: str, code: str
) -> None:
    with pytest.raises(Oversized, match=r"more than 4,300 digits") as caught:
        parse_python("import torch\n" + code.format(literal))
    assert caught.value.lineno == 2


@pytest.mark.parametrize("literal", ["0x" + "f" * 3000, "9" * 4000, "'" + "f" * 5000 + "'"])
def test_long_integers_that_can_be_shown_are_parsed(literal: str) -> None:
    assert len(str(parse_python(f"x = {literal}\n").body[0].value.value)) > 3000  # type: ignore[attr-defined]


@pytest.mark.parametrize("literal", [*HUGE, "9" * 5000])
def test_SE_toml_with_such_an_integer_is_an_error_with_its_line(literal: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError, match=r"more than 1,000 digits .at line 2"):
        parse_toml(f"a = 1\nb = {literal}\n")
    assert parse_toml(f"a = '{literal}'  # {literal}\n") == {"a": literal}


@pytest.mark.parametrize(
    "words", [["init", "--no-input", "--host", "local", "--script", "train.py"], ["fix", "--diff"]]
)
@pytest.mark.parametrize("code", ["foo[{}].train()\n", 'model = f(torch_dtype={{"bf16": {}}}["bf16"])\n'])
def test_SE_no_command_ends_with_an_internal_error_because_of_a_huge_integer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], code: str
) -> None:
    (tmp_path / "train.py").write_text("import torch\n" + code.format(HUGE[0]))
    monkeypatch.chdir(tmp_path)
    card = ["--card", "titan-rtx", "."] if words[0] == "fix" else []
    assert run([*words, *card, "--json"]) != 70
    json.loads(capsys.readouterr().out)
