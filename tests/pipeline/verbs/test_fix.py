"""What `fix` says of what it did not change, and of fixers that nobody named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.cli import run

CAST = "import torch\n\nmodel = model.to(torch.bfloat16)\n"


@pytest.mark.parametrize(
    ("files", "code", "told", "kept_silent"),
    [
        ({"tokenizer.json": '{"version": "1.0", "model": {'}, 31, "nothing was changed", "nothing to fix"),
        ({"notes.py": "print('hello')\n"}, 0, "nothing to fix", "nothing was changed"),
    ],
    ids=["broken", "well"],
)
def test_nothing_to_fix_is_said_only_where_all_is_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], code: int, told: str, kept_silent: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert run(["fix", str(tmp_path), "--card", "titan-rtx"]) == code
    said = capsys.readouterr().out
    assert told in said
    assert kept_silent not in said


@pytest.mark.parametrize(
    ("words", "told"),
    [(("--only", "bf16-to-fp16"), True), ((), False), (("--only", "bf16-to-fp16", "--only", "trainable-fp32"), False)],
)
def test_a_fixer_that_comes_along_unasked_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: bool
) -> None:
    (tmp_path / "cast.py").write_text(CAST)
    assert run(["fix", str(tmp_path), "--card", "titan-rtx", "--diff", *words]) == 0
    assert ("trainable-fp32 comes with bf16-to-fp16" in capsys.readouterr().out) is told
