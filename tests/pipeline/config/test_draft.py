"""What `init` guesses of a project's files."""

from __future__ import annotations

import pytest

from pipeline.config.draft import Answers, guess_project, render_config

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
    assert (guess.script, guess.launcher) == ("src/train.py", launcher)
    words = f'["bash", "{launcher}"]' if launcher else '["python", "src/train.py"]'
    assert f"command: {words} " in render_config(Answers("x", "local", "", guess.script, "", guess.launcher))
