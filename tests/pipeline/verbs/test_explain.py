"""`pipeline explain`: the list of names, and the page of each."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.markdown import Markdown

from fixers.pages import fixer_names
from pipeline.cli.main import run
from pipeline.pages.find import all_names, page_of

ROOT = Path(__file__).resolve().parents[3]


def test_every_name_is_listed_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain"]) == 0
    printed = capsys.readouterr().out
    assert {name for _, name in all_names()} - set(printed.split()) == set()
    assert max(len(line) for line in printed.splitlines()) <= 110


def test_one_page_loads_no_fixers_and_nothing_that_draws() -> None:
    program = (
        "import sys; from pipeline.cli.main import run; run(['explain', 'sync']); "
        "sys.exit(' '.join({'fixers.code.bf16_to_fp16', 'fixers.setup.tokenizer', 'rich.markdown'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert done.stderr.strip() == ""
    assert done.stdout.startswith("# sync")


def on_a_terminal(page: str) -> list[str]:
    """Return the lines of a page in a terminal of 100 columns."""
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    console.print(Markdown(page))
    assert isinstance(console.file, io.StringIO)
    return [line.strip() for line in console.file.getvalue().splitlines()]


def test_the_code_of_a_fixers_page_keeps_its_lines_on_a_terminal() -> None:
    lines = on_a_terminal(page_of("trainable-fp32"))
    assert "model = get_peft_model(model, config)" in lines
    assert "for parameter in model.parameters():  # a loss scaler refuses float16 gradients" in lines
    assert "if parameter.requires_grad:" in lines


@pytest.mark.parametrize("name", fixer_names())
def test_every_section_of_a_fixers_page_has_its_heading_on_a_terminal(name: str) -> None:
    assert {"What it does", "Why", "Before", "After", "What it can break", "How to undo"} <= set(
        on_a_terminal(page_of(name))
    )
