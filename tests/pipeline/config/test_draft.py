"""What `init` infers from a project's files."""

from __future__ import annotations

import ast
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fixers.sources.shell_starts import files_started
from fixers.sources.syntax import parse_python
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


@pytest.mark.parametrize("line", [b"srun " * 10_000, b"python " * 5000, b"$a .py " * 5000])
def test_SE_12_a_long_line_of_a_shell_script_is_no_command(line: bytes) -> None:
    script = b"a=1\n" * 8 + b"python train.py\n" + line + b"python other.py\n"
    assert files_started("run.sh", script) == {"train.py"}


@pytest.mark.parametrize("line", [b"srun " * 798, b"srun .py " * 400, b"$a " * 1300, b"-m a;" * 780])
def test_SE_12_a_shell_script_of_many_launchers_is_read_in_linear_time(line: bytes) -> None:
    script = b"".join(b"a=%d\n" % number for number in range(8)) + b"python train.py $a\n" + (line + b"\n") * 16
    began = time.process_time()
    assert "train.py" in files_started("run.sh", script)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("line", "started"),
    [
        (b"srun srun --nodes 2 python a.py b.py; echo c.py | python -u d.py", {"a.py", "d.py"}),
        (b"python -c 'x' # a.py", set()),
        (b"x '--module python a.py'", {"a.py"}),
        (b"torchrun -m python a.py", {"python.py"}),
        (b"torchrun " + b" " * 1990 + b"a.py", {"a.py"}),
        (b"torchrun " + b" " * 2010 + b"a.py", set()),
        (b"torchrun x" + b" " * 2010 + b"python a.py", {"a.py"}),
    ],
)
def test_a_launcher_starts_the_first_script_after_it_in_its_command(line: bytes, started: set[str]) -> None:
    assert files_started("run.sh", line + b"\n") == started


def test_SE_12_shell_scripts_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.config.draft.MOST_SHELL_BYTES", 60)
    shells = [(f"run{number}.sh", b"python src/train.py\n") for number in range(4)]
    assert set(guess_project([TRAIN, *shells]).shells) == {"run0.sh", "run1.sh", "run2.sh"}


@pytest.mark.parametrize(
    ("source", "read"),
    [(b"a()\n" * 1000, 0), (b"a()\n" * 1000 + b"model.fit()\n", 1), (TRAIN[1] + b"a()\n" * 200_000, 0)],
)
def test_SE_12_a_tree_is_built_only_of_small_files_that_may_train(
    monkeypatch: pytest.MonkeyPatch, source: bytes, read: int
) -> None:
    parsed: list[bytes] = []

    def counted(data: bytes) -> ast.Module:
        parsed.append(data)
        return parse_python(data)

    monkeypatch.setattr("pipeline.config.candidates.parse_python", counted)
    guess = guess_project([("model.py", source)])
    assert (len(parsed), guess.scripts) == (read, ("model.py",) if TRAIN[1] in source else ())


@pytest.mark.parametrize(("times", "started"), [(2, {"train.py", "other.py"}), (100, {"train.py"})])
def test_SE_12_a_line_that_its_variables_make_long_is_no_command(times: int, started: set[str]) -> None:
    script = b"a='" + b"srun " * 90 + b"'\nS=other.py\npython train.py\n" + b"$a " * times + b"python $S\n"
    assert files_started("run.sh", script) == started


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
def test_a_script_that_waits_for_keyboard_input_is_not_offered(line: bytes, waits: bool) -> None:
    guess = guess_project([("train.py", SCRIPT + line + b"\n")])
    assert (guess.scripts, guess.interactive) == (((), ("train.py",)) if waits else (("train.py",), ()))


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


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("finetune.py", "trainer = Trainer(model=model)\ntrainer.train()\n"),
        ("run_ctc.py", "Trainer(model=model, args=TrainingArguments('out')).train()\n"),
        ("dpo.py", "trainer = DPOTrainer('policy')\ntrainer.train()\n"),
        ("main.py", "from engine import train_one_epoch\nif __name__ == '__main__':\n    train_one_epoch(net)\n"),
        ("lit.py", "with strategy:\n    L.Trainer(max_epochs=1).fit(net)\n"),
        ("loop.py", "for x in loader:\n    net(x).backward()\n    opt.step()\n"),
        ("cli.py", "def main():\n    loss.backward()\nfire.Fire(main)\n"),
        ("src/train.py", "from factory import run_exp\nrun_exp()\n"),
    ],
)
def test_a_training_script_is_recognised_by_its_code_and_not_by_its_name(path: str, source: str) -> None:
    assert guess_project([(path, source.encode())]).scripts == (path,)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("trainer.py", "class Loop:\n    def fit(self):\n        self.loss.backward()\n        self.opt.step()\n"),
        ("train_utils.py", "import logging\nlogging.basicConfig()\ndef train_step(net):\n    net.loss.backward()\n"),
        ("evaluate.py", "model.train(False)\nTrainer(model=model).evaluate()\n"),
        ("split.py", "from sklearn import train_test_split\na, b = train_test_split(rows)\n"),
        ("serve.py", "app = build()\nif __name__ == '__main__':\n    app.run()\n"),
        ("train/__init__.py", ""),
    ],
)
def test_a_file_that_trains_nothing_when_it_runs_is_not_offered(path: str, source: str) -> None:
    guess = guess_project([(path, source.encode()), TRAIN])
    assert guess.scripts == ("src/train.py",)


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


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (b"t = Trainer(model=m)\nt.train()\n", True),
        (b"t: Trainer = Seq2SeqTrainer(m)\nt.train(resume_from_checkpoint=True)\n", True),
        (b"from lib import Trainer as T\nx = T(m)\nx.train()\n", True),
        (b"if (t := make_trainer(m)):\n    t.train()\n", True),
        (b"pl = lightning.Trainer()\npl.fit(m)\n", True),
        (b"t = Model()\nt.train()\n", False),
        (b"t = Trainer(model=m)\nt.evaluate()\n", False),
    ],
)
def test_a_trainer_is_found_whatever_its_variable_is_called(source: bytes, found: bool) -> None:
    assert guess_project([("start.py", source)]).scripts == (("start.py",) if found else ())
