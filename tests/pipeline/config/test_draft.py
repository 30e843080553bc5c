"""What `init` guesses of a project's files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.document import parse_document
from pipeline.config.draft import Answers, guess_project, render_config, render_host
from pipeline.config.hosts import load_host
from tests.pipeline.config.config_files import write

TRAIN = ("src/train.py", b"if __name__ == '__main__':\n    loss.backward()\n    optimizer.step()\n")


@pytest.mark.parametrize(
    ("shells", "launcher"),
    [
        ([("scripts/train.sh", b"python -m src.train --config conf/exp.yaml\n")], "scripts/train.sh"),
        ([("go.sh", b"accelerate launch src/train.py --lr 1e-4\n")], "go.sh"),
        ([("clean.sh", b"rm -r outputs\n")], ""),
        ([("go.sh", b"python src/train.py --config $1\n")], ""),
        ([("a.sh", b"python src/train.py\n"), ("b.sh", b"python src/train.py --debug\n")], ""),
    ],
)
def test_the_one_shell_script_that_starts_the_training_is_the_command(
    shells: list[tuple[str, bytes]], launcher: str
) -> None:
    guess = guess_project([TRAIN, *shells])
    assert (guess.scripts, guess.launcher_of("src/train.py")) == (("src/train.py",), launcher)
    words = f'["bash", "{launcher}"]' if launcher else '["python", "src/train.py"]'
    assert f"command: {words} " in render_config(Answers("x", "local", "", "src/train.py", "", launcher))


SCRIPT = b"trainer = Trainer(model)\nif __name__ == '__main__':\n    trainer.train()\n"


def test_every_script_that_may_train_is_a_candidate_the_likeliest_first() -> None:
    files = [("a/train_old.py", SCRIPT), ("train.py", SCRIPT), ("plot.py", b"import pylab\n"), ("distill.py", SCRIPT)]
    more = [("tests/test_train.py", SCRIPT), ("test_train.py", SCRIPT), ("train/__init__.py", b"")]
    assert guess_project([*files, *more]).scripts == ("train.py", "a/train_old.py", "distill.py")


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        (b"size = input('size? ')", True),
        (b"key = getpass.getpass()", True),
        (b"size = Prompt.ask('size')", True),
        (b"size = click.prompt('size')", True),
        (b"size = input(", True),
        (b"# size = input('size? ')", False),
        (b"words = 'type input() here'", False),
        (b"def f(input):\n    return input(3)", False),
        (b"batch.input(3)", False),
    ],
)
def test_a_script_that_waits_for_somebody_to_type_is_no_candidate(line: bytes, waits: bool) -> None:
    guess = guess_project([("train.py", SCRIPT + line + b"\n")])
    assert (guess.scripts, guess.interactive) == (((), ("train.py",)) if waits else (("train.py",), ()))


def test_what_was_offered_and_not_chosen_stands_in_the_files_as_a_comment(tmp_path: Path) -> None:
    offered = Answers(
        "x", "rig", "rig.example", "train.py", "my collator.py", found_data="data", offers_environment=True
    )
    chosen = replace(offered, data="/mnt/a b", environment=True, card="titan-rtx")
    for answers in (offered, chosen):
        write(tmp_path, render_config(answers), "x")
        write(tmp_path, render_host(answers), "hosts/rig")
        for path in ("train.py", "my collator.py"):
            (tmp_path / path).touch()
    assert "# data: {path: data}" in render_config(offered) and "# card:" in render_host(offered)
    assert '# fixers: {data-collator: {path: "my collator.py"}, environment: create}' in render_config(offered)
    document = parse_document("x.yaml", render_config(chosen).encode()).values
    assert document["data"] == {"path": "/mnt/a b"}
    assert document["fixers"] == {"data-collator": {"path": "my collator.py"}, "environment": "create"}
    assert load_host("rig", tmp_path).config.card == "titan-rtx"
