"""Whether a script can resume is judged from its files and its command."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from pipeline.judgements.resuming import may_resume

PLAIN = "trainer = Trainer(model, args)\ntrainer.train()\n"


@pytest.mark.parametrize(
    ("files", "command", "may"),
    [
        ({"train.py": PLAIN}, ("python", "train.py"), False),
        ({"train.py": PLAIN, "README.md": "set resume_from_checkpoint"}, ("python", "train.py"), False),
        ({"train.py": PLAIN}, ("python", "train.py", "--resume_from_checkpoint", "{resume_from}"), True),
        ({"train.py": PLAIN, "src/loop.py": "accelerator.load_state(last)"}, ("python", "train.py"), True),
        ({"train.py": "p = os.environ['HALFSTEP_RESUME_FROM']"}, ("python", "train.py"), True),
        ({"train.py": "optimizer.load_state_dict(torch.load('last.pt')['optimizer'])"}, ("bash", "go.sh"), True),
    ],
)
def test_files_and_command_say_whether_a_script_can_resume(
    tmp_path: Path, files: dict[str, str], command: tuple[str, ...], may: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert may_resume(DiskTree(tmp_path), command) is may
