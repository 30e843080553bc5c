"""A project of the corpus: its files, and the expected result of the fixers."""

from __future__ import annotations

from dataclasses import dataclass, field

SPELLINGS = {
    "short": {"BF": "bf16", "HALF": "fp16", "FULL": "fp32"},
    "long": {"BF": "bfloat16", "HALF": "float16", "FULL": "float32"},
}

CONFIG = """import yaml

with open("conf/train.yaml") as file:
    config = yaml.safe_load(file)["train"]
"""
YAML = "train:\n  precision: BF  # of the model\n"


@dataclass(frozen=True)
class Project:
    """A project of the corpus.

    `files` maps paths to texts with BF, HALF and FULL for the words of a spelling; `run` starts the program. `refused`
    is the line that accepts no float16, which a finding names or which is left alone; the project is not changed. It is
    empty if the program selects float16 after the fixers.
    """

    name: str
    files: dict[str, str]
    run: str = "python train.py"
    refused: str = ""
    spellings: tuple[str, ...] = field(default=("short", "long"))

    def written(self, spelling: str) -> dict[str, str]:
        """Return the files with the words of one spelling filled in."""
        texts = dict(self.files)
        for mark, word in SPELLINGS[spelling].items():
            texts = {path: text.replace(mark, word) for path, text in texts.items()}
        return texts


def configured(name: str, program: str, yaml: str = YAML, **more: str) -> Project:
    """Return a program that reads `precision` from a YAML file."""
    files = {"train.py": program, "config.py": CONFIG, "conf/train.yaml": yaml}
    return Project(name, files, refused=more.get("refused", ""))
