"""SE: the judgements of a project keep few texts at a time, because a small archive may contain many large files."""

from __future__ import annotations

import pytest

from pipeline.config.draft import guess_project
from pipeline.config.readme_commands import LONGEST_PAGE
from pipeline.judgements.half_weights import judge_half_weights

LARGE = 2**20
TRAIN = b"""\
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("base", torch_dtype=torch.float16)
Trainer(model, TrainingArguments("out", fp16=False)).train()
"""


class Count:
    """The number of texts that somebody keeps, and the largest number so far."""

    now = most = 0

    def made(self, data: bytes) -> Text:
        text = Text(data)
        text.texts = self
        self.now += 1
        self.most = max(self.most, self.now)
        return text


class Text(bytes):
    """A text that is counted as long as somebody keeps it."""

    texts: Count

    def __del__(self) -> None:
        self.texts.now -= 1


class CountedTree:
    """A project whose texts are counted."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.count = Count()

    def paths(self) -> tuple[str, ...]:
        return tuple(self.files)

    def read(self, path: str) -> bytes:
        return self.count.made(self.files[path])

    def digest(self, path: str) -> str:
        return path


@pytest.mark.parametrize("ending", ["py", "ipynb"])
@pytest.mark.parametrize("half", [b"", b"# float16\n"])
def test_SE_texts_are_searched_for_half_weights_one_at_a_time(ending: str, half: bytes) -> None:
    tree = CountedTree({f"f{number}.{ending}": half + bytes(99) for number in range(20)})
    assert judge_half_weights(tree) == ()
    assert tree.count.most <= 2


def test_SE_a_finding_beside_large_files_needs_only_its_own_text() -> None:
    tree = CountedTree({**{f"f{number}.py": bytes(99) for number in range(20)}, "train.py": TRAIN})
    assert [each.where for each in judge_half_weights(tree)] == ["train.py:5"]
    assert tree.count.most <= 3


def test_SE_spaces_after_the_name_of_a_precision_are_read_in_linear_time() -> None:
    tree = CountedTree({"train.py": TRAIN, "a.yaml": b"mixed_precision" + b" " * LARGE})
    assert judge_half_weights(tree)
    tree.files["a.yaml"] += b": \n 'bf16'"
    assert judge_half_weights(tree) == ()


@pytest.mark.parametrize(("path", "kept"), [("f.sh", 0), ("README.md", LONGEST_PAGE), ("f.py", 0)])
def test_SE_a_guess_keeps_at_most_the_beginning_of_a_text(path: str, kept: int) -> None:
    count = Count()
    names = [path] if path == "README.md" else [f"{number}{path}" for number in range(20)]
    guess = guess_project((name, count.made(b"python train.py\n" + bytes(LARGE))) for name in names)
    assert count.most <= 2 and count.now == 0
    assert max((len(page) for page in guess.pages.values()), default=0) == kept
