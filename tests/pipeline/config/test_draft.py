"""What `init` infers from a project's files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fixers.sources.shell_starts import files_started
from pipeline.config.document import parse_document
from pipeline.config.draft import Answers, guess_project, render_config, render_host
from pipeline.config.hosts import load_host
from tests.pipeline.config.config_files import write

TRAIN = ("src/train.py", b"if __name__ == '__main__':\n    loss.backward()\n    optimizer.step()\n")


def test_a_shell_script_is_started_by_bash_even_if_another_one_names_it() -> None:
    guess = guess_project([TRAIN, ("go.sh", b"python src/train.py\n"), ("all.sh", b"bash go.sh\n")])
    assert guess.command_of("go.sh") == ("bash", "go.sh")
    assert guess.command_of("src/train.py") == ("bash", "go.sh")


@pytest.mark.parametrize(
    ("shells", "launcher"),
    [
        ([("scripts/train.sh", b"python -m src.train --config conf/exp.yaml\n")], "scripts/train.sh"),
        ([("go.sh", b"accelerate launch src/train.py --lr 1e-4\n")], "go.sh"),
        ([("clean.sh", b"rm -r outputs\n")], ""),
        ([("data.sh", b"# data for src/train.py\ncurl -o src.train.zip $URL\nrm -d src/train.py.old\n")], ""),
        ([("lint.sh", b"ruff check src/train.py\npython tools/prepare.py --for src/train.py\n")], ""),
        ([("go.sh", b"SCRIPT=src/train.py\nbin/torchrun --nproc_per_node 2 \\\n  ${SCRIPT} --lr 1\n")], "go.sh"),
        ([("go.sh", b'DIR=src\nMAIN="$DIR/train.py"\n"${PYTHON:-python3}" -u "$MAIN"\n')], "go.sh"),
        ([("go.sh", b"python src/train.py --config $1\n")], ""),
        ([("a.sh", b"python src/train.py\n"), ("b.sh", b"python src/train.py --debug\n")], ""),
    ],
)
def test_the_one_shell_script_that_starts_the_training_is_the_command(
    shells: list[tuple[str, bytes]], launcher: str
) -> None:
    guess = guess_project([TRAIN, *shells])
    command = ("bash", launcher) if launcher else ("python", "src/train.py")
    assert (guess.scripts, guess.command_of("src/train.py")) == (("src/train.py",), command)
    words = f'["{command[0]}", "{command[1]}"]'
    assert f"command: {words} " in render_config(Answers("x", "local", "", "src/train.py", "", command))


def test_SE_12_shell_scripts_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.config.draft.MOST_SHELL_BYTES", 60)
    shells = [(f"run{number}.sh", b"python src/train.py\n") for number in range(4)]
    assert set(guess_project([TRAIN, *shells]).shells) == {"run0.sh", "run1.sh", "run2.sh"}


def test_SE_12_each_shell_script_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(path: str, data: bytes) -> frozenset[str]:
        read.append(path)
        return files_started(path, data)

    monkeypatch.setattr("pipeline.config.draft.files_started", counted)
    files = [(f"train{number}.py", TRAIN[1]) for number in range(9)]
    guess = guess_project([*files, ("run.sh", b"python train0.py\n"), ("args.sh", b"python train1.py $1\n")])
    commands = [guess.command_of(script) for script in guess.scripts]
    assert len(commands) == 9 and ("bash", "run.sh") in commands and ("python", "train1.py") in commands
    assert read == ["run.sh"]


def test_no_shell_script_takes_the_place_of_a_script_that_the_user_named() -> None:
    page = ("README.md", b"    python src/train.py --lr 1e-4\n")
    guess = guess_project([TRAIN, ("run.sh", b"torchrun src/train.py\npython evaluate.py\n"), page])
    assert guess.command_of("src/train.py") == ("bash", "run.sh")
    assert guess.command_of("src/train.py", named=True) == ("python", "src/train.py", "--lr", "1e-4")
    assert guess.command_of("run.sh", named=True) == ("bash", "run.sh")


def test_declined_options_are_comments_in_the_files(tmp_path: Path) -> None:
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
    assert "# data-collator: keeps the host's copy" in render_config(chosen)
    assert "# data-collator" not in render_config(replace(chosen, collator=""))
    document = parse_document("x.yaml", render_config(chosen).encode()).values
    assert document["data"] == {"path": "/mnt/a b"}
    assert document["fixers"] == {"data-collator": {"path": "my collator.py"}, "environment": "create"}
    assert load_host("rig", tmp_path).config.card == "titan-rtx"


IN_PACKAGE = ("pack/train.py", b"from .model import build\nif __name__ == '__main__':\n    train(build())\n")
DDP = ("ddp.py", b"for x in loader:\n    net(x).backward()\n")


@pytest.mark.parametrize(
    ("script", "readme", "command"),
    [
        (IN_PACKAGE, "", ("python", "-m", "pack.train")),
        (
            IN_PACKAGE,
            "    python -m pack.train \\\n      --config conf/a.yaml\n",
            ("python", "-m", "pack.train", "--config", "conf/a.yaml"),
        ),
        (DDP, "```sh\n$ torchrun --nproc_per_node 2 ddp.py\n```\n", ("torchrun", "--nproc_per_node", "2", "ddp.py")),
        (DDP, "python ddp.py --data <folder>\npython ddp.py --data /path/to/data\n", ("python", "ddp.py")),
        (DDP, "python ddp.py --small\n\npython ddp.py --large\n", ("python", "ddp.py")),
        (DDP, "python doesn't know\npython other.py --lr 1\n", ("python", "ddp.py")),
        pytest.param(DDP, "python ddp.py '" + "long \\\n" * 1_000_000 + "'\n", ("python", "ddp.py"), id="long"),
    ],
)
def test_the_command_is_the_one_that_the_readme_shows_or_python(
    script: tuple[str, bytes], readme: str, command: tuple[str, ...]
) -> None:
    guess = guess_project([script, ("README.md", readme.encode())])
    assert guess.command_of(script[0]) == command


SRC = {"src/kws/__init__.py": "", "src/kws/data.py": "x = 1\n"}
TRAINS = "if __name__ == '__main__':\n    train(build())\n"


@pytest.mark.parametrize(
    ("files", "command", "folder"),
    [
        ({**SRC, "src/kws/train.py": f"from kws.data import x\n{TRAINS}"}, ["-m", "kws.train"], "src"),
        ({**SRC, "src/kws/train.py": f"from .data import x\n{TRAINS}"}, ["-m", "kws.train"], "src"),
        ({**SRC, "src/kws/__main__.py": f"from kws.data import x\n{TRAINS}"}, ["-m", "kws"], "src"),
        ({**SRC, "src/kws/train.py": f"import torch\n{TRAINS}"}, ["src/kws/train.py"], ""),
        ({"src/__init__.py": "", "src/train.py": f"from src.data import x\n{TRAINS}"}, ["-m", "src.train"], ""),
        ({**SRC, "src/__init__.py": "", "src/kws/train.py": f"import kws.data\n{TRAINS}"}, ["-m", "kws.train"], "src"),
        ({"datasets/train.py": f"from datasets import load_dataset\n{TRAINS}"}, ["datasets/train.py"], ""),
    ],
)
def test_a_file_that_imports_its_own_package_is_started_as_a_module(
    files: dict[str, str], command: list[str], folder: str
) -> None:
    guess = guess_project((path, text.encode()) for path, text in files.items())
    (script,) = guess.scripts
    found = guess.command_of(script)
    assert (found, guess.import_folder(script, found)) == (("python", *command), folder)


def test_the_command_of_the_readme_imports_from_the_same_folder() -> None:
    readme = "python -m kws.train --config conf/base.yaml\n"
    files = {**SRC, "src/kws/train.py": f"from kws.data import x\n{TRAINS}", "README.md": readme}
    guess = guess_project((path, text.encode()) for path, text in files.items())
    command = guess.command_of("src/kws/train.py")
    assert command == tuple(readme.split()) and guess.import_folder("src/kws/train.py", command) == "src"


EVIL = ["/v\nsecrets: [AWS_SECRET_ACCESS_KEY]\n#", "/v #", "/v: {", "/v\u2028secrets: [A]", "*a", "null", '"', ""]


@pytest.mark.parametrize("place", EVIL)
def test_SE_13_a_folder_that_a_host_or_a_project_names_sets_no_other_key(place: str) -> None:
    answers = Answers("lab", "lab", "lab.example", "train.py", "python", workdir=f"{place}/halfstep", found_data=place)
    host = parse_document("lab.yaml", render_host(answers).encode()).values
    assert host == {"host": "lab.example", "workdir": f"{place}/halfstep"}
    config = parse_document("run.yaml", render_config(answers).encode()).values
    assert {"secrets", "data"}.isdisjoint(config)
