"""The measurements of `make gpu-day`, with a stand-in for the card."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu_day
from benchmarks.gpu_day import Day, with_section
from benchmarks.memory import PHI4, Row, base_of
from remote.payload.training.attention_mask import FLASH

ROW = Row(PHI4, 128, 2, 2, 64, 8, 0, words=400)
PAGE = "# Benchmarks\n\nText.\n\n## On a card: Stand-in\n\nOld.\n\n## Last\n\nEnd.\n"


@dataclass
class StandIn:
    """The CPU. `no_memory` lists which measurements fail, counted from 0."""

    no_memory: tuple[int, ...] = ()
    name: str = "Stand-in"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    caps: list[int] = field(default_factory=list)
    measurements: int = -1

    def cap(self, size: int) -> None:
        self.caps.append(size)

    def wait(self) -> None:
        if self.measurements in self.no_memory:
            raise torch.OutOfMemoryError("stand-in")

    def reset_peak(self) -> None:
        self.measurements += 1

    def peak(self) -> int:
        return 3 * 2**30


@pytest.fixture(autouse=True)
def _one_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_day, "PAIRS", 1)


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_the_table_has_both_speeds_and_the_estimate_under_the_name_of_the_card(tmp_path: Path) -> None:
    card, page = StandIn(), tmp_path / "benchmarks.md"
    page.write_text(PAGE)
    Day(card, base_of, lambda: False).report([ROW], page, "Tests marked `gpu`: passed.")
    text = page.read_text()
    assert "Old." not in text and text.startswith("# Benchmarks\n\nText.\n\n") and text.endswith("## Last\n\nEnd.\n")
    head, rule, row = text.split("24 GiB. Tests marked `gpu`: passed.\n\n")[1].splitlines()[:3]
    cells = dict(zip(cells_of(head), cells_of(row), strict=True))
    assert set(cells_of(rule)) == {"---"}
    assert (cells["batch"], cells["layers checkpointed"]) == ("2 x 64 / 8", "0")
    assert float(cells["halfstep, samples/s"]) > 0 and float(cells["plain"]) > 0 and float(cells["ratio"]) > 0
    assert (cells["halfstep, GiB"], cells["plain, GiB"]) == ("3.0", "3.0")
    assert float(cells["error"].rstrip("%")) < -90, "a tiny model needs much less than 3 GiB"
    assert card.caps[0] == gpu_day.CARD_BYTES and len(card.caps) == 4
    assert attention_rule() == FLASH, "the rules of a Turing card end with the measurement"


def attention_rule() -> Any:
    return gpu_day.attention_mask.FLASH


@pytest.mark.parametrize(
    ("no_memory", "late", "expected"),
    [
        ((1,), False, {"plain": "out of memory", "plain, GiB": "out of memory", "ratio": "", "halfstep, GiB": "3.0"}),
        ((0,), False, {"halfstep, samples/s": "out of memory", "halfstep, GiB": "out of memory", "error": ""}),
        ((), True, {"halfstep, samples/s": "not measured in time", "plain": "", "estimate": ""}),
    ],
)
def test_what_does_not_fit_or_comes_too_late_is_a_row_too(
    no_memory: tuple[int, ...], late: bool, expected: dict[str, str]
) -> None:
    line = Day(StandIn(no_memory), base_of, lambda: late).compare(ROW)
    cells = dict(zip(cells_of(gpu_day.HEAD), cells_of(line), strict=True))
    assert {name: cells[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("page", "after"),
    [
        ("# A\n\n## B\n\nold\n", "# A\n\n## B\n\nnew\n"),
        ("# A\n\n## B\n\nold\n\n## C\n\nc\n\n## D\n", "# A\n\n## B\n\nnew\n\n## C\n\nc\n\n## D\n"),
        ("# A\n\n## C\n\nc\n", "# A\n\n## C\n\nc\n\n## B\n\nnew\n"),
        ("# A\n\n## B and C\n\nc\n", "# A\n\n## B and C\n\nc\n\n## B\n\nnew\n"),
    ],
)
def test_a_section_is_replaced_or_appended(page: str, after: str) -> None:
    assert with_section(page, "B", "new") == after
    assert with_section(after, "B", "new") == after


def test_without_a_card_nothing_is_run_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("no test may be started")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(subprocess, "run", never)
    assert gpu_day.main(["--page", str(tmp_path / "none.md")]) == 2
    assert capsys.readouterr().err == "gpu-day needs a CUDA card\n"


def test_the_full_model_has_its_trained_parameters() -> None:
    config = gpu_day.full_model(gpu_day.ROWS[0]).config
    heads = config.num_attention_heads + 2 * config.num_key_value_heads
    head = config.hidden_size // config.num_attention_heads
    hidden, inner = config.hidden_size, config.intermediate_size
    layer = (hidden + heads * head) + 2 * hidden + (hidden + 2 * inner) + (inner + hidden)
    assert gpu_day.LORA.r * layer * config.num_hidden_layers == 92_274_688


Build = Callable[..., Any]
