"""`init`: the files that it writes, its questions, and what it refuses to guess."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.draft import Answers
from pipeline.config.hosts import load_host
from pipeline.config.load import load_config
from pipeline.hosts.trust import require_trust
from pipeline.show.screen import Screen
from pipeline.verbs import init
from remote.errors import HostFileUntrusted
from tests.e2e.user import CommandResult, User

Typed = Callable[..., CommandResult]
TRAIN = "trainer = Trainer(model)\nif __name__ == '__main__':\n    trainer.train()\n"
WAITS = TRAIN + "size = input('size? ')\n"


@pytest.mark.parametrize(("where", "warned"), [("project/src", True), ("project", False)])
def test_a_project_inside_a_project_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str, warned: bool
) -> None:
    (tmp_path / "project" / "configs").mkdir(parents=True)
    (tmp_path / "project" / "src").mkdir()
    monkeypatch.chdir(tmp_path / where)
    assert run(["init", "--host", "local", "--config", "first"]) == 0
    assert (f"{tmp_path / 'project'} is a project already" in capsys.readouterr().out) is warned
    assert (tmp_path / where / "configs" / "first.yaml").is_file()


@pytest.fixture
def user(tmp_path: Path) -> User:
    person = User(tmp_path / "project", tmp_path / "home")
    (person.project / "src").mkdir()
    for path in ("train.py", "src/train_teacher.py"):
        (person.project / path).write_text(TRAIN)
    (person.project / "train_ask.py").write_text(WAITS)
    return person


@pytest.fixture
def typed(user: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Run a command of the user in this process, in a tenth of the CPU time of its own process."""
    monkeypatch.chdir(user.project)
    monkeypatch.setenv("HOME", str(user.home))

    def run_pipeline(*words: str) -> CommandResult:
        code = run(list(words))
        return CommandResult(code, *capsys.readouterr())

    return run_pipeline


NAMES = ("--host", "local", "--config", "mine")


@pytest.mark.parametrize("words", [(), ("--no-input",), ("--json",)])
def test_several_scripts_are_listed_and_none_is_picked(user: User, typed: Typed, words: tuple[str, ...]) -> None:
    result = typed("init", *NAMES, *words)
    output = result.out + result.err
    assert result.code == 2 and not (user.project / "configs").exists()
    assert "train.py, src/train_teacher.py, train_ask.py (waits for input)" in output
    assert "pipeline init --script train.py" in output


def test_no_input_never_prompts_at_a_terminal(user: User) -> None:
    code, output = user.answer_pipeline(["1"], "init", *NAMES, "--no-input")
    assert code == 2 and "which of these" not in output


def test_the_only_script_is_not_chosen_if_it_waits_for_keyboard_input(user: User, typed: Typed) -> None:
    for path in ("train.py", "src/train_teacher.py"):
        (user.project / path).unlink()
    result = typed("init", *NAMES)
    assert result.code == 2 and "train_ask.py waits for keyboard input" in result.err
    assert typed("init", *NAMES, "--script", "train_ask.py").code == 0, "who names it means it"


@pytest.mark.parametrize("answer", ["2", "src/train_teacher.py"])
def test_the_user_chooses_and_is_offered_data_environment_and_card(user: User, answer: str) -> None:
    (user.project / "requirements.txt").write_text("torch\n")
    (user.project / ".gitignore").write_text("data/\n")
    (user.project / "data").mkdir()
    (user.project / "data" / "a.wav").write_text("x")
    code, output = user.answer_pipeline(
        [answer, "rig.example", "data", "y", "titan-rtx"], "init", "--host", "rig", "--config", "mine"
    )
    assert code == 0, output
    assert "1  train.py" in output and "2  src/train_teacher.py" in output and "train_ask.py" not in output
    assert "this project has data/" in output and "requirements.txt" in output
    config = load_config("mine", user.project).config
    assert (config.command, config.data.path) == (("python", "src/train_teacher.py"), "data")
    assert config.fixers.model_extra == {"environment": "create"}
    assert 'card: "titan-rtx"' in (user.project / "configs/hosts/rig.yaml").read_text()


def test_an_unknown_card_and_missing_data_are_refused(user: User, typed: Typed) -> None:
    for words, reason in ((("--card", "titan-rx"), "titan-rtx"), (("--data", "nowhere"), "nowhere does not exist")):
        result = typed("init", "--host", "rig", "--config", "mine", "--script", "train.py", *words)
        assert result.code == 2 and reason in result.err and not (user.project / "configs").exists()


def test_a_wrong_answer_is_explained_and_the_question_asked_again(user: User) -> None:
    answers = ["9", "2", "rig.example", "nowhere", "", "titan-rx", "titan-rtx"]
    code, output = user.answer_pipeline(answers, "init", "--host", "rig", "--config", "mine")
    assert code == 0, output
    assert "none was chosen" in output and "nowhere does not exist" in output and "titan-rx" in output
    assert 'card: "titan-rtx"' in (user.project / "configs/hosts/rig.yaml").read_text()


def test_a_third_wrong_answer_ends_init_and_writes_nothing(user: User) -> None:
    code, output = user.answer_pipeline(["9", "8", "7", "1"], "init", *NAMES)
    assert code == 2 and output.count("which of these scripts") == 3
    assert not (user.project / "configs").exists()


def test_an_alias_needs_no_host_file(user: User, typed: Typed) -> None:
    (user.home / ".ssh").mkdir()
    (user.home / ".ssh" / "config").write_text("Host titan\n  HostName 10.0.0.1\n")
    assert typed("init", "--host", "titan", "--config", "mine", "--script", "train.py").code == 0
    assert not (user.project / "configs" / "hosts").exists()


def test_the_only_alias_is_the_default_host_and_its_address_is_not_asked(user: User) -> None:
    (user.home / ".ssh").mkdir()
    (user.home / ".ssh" / "config").write_text("Host *\n  Compression yes\nHost titan\n  HostName 10.0.0.1\n")
    code, output = user.answer_pipeline(["", "", ""], "init", "--config", "mine", "--script", "train.py")
    assert code == 0 and "[titan]" in output and "address or ssh alias" not in output
    assert "--host titan --config mine" in output
    (user.home / ".ssh" / "config").write_text("Host titan\nHost rig\n")
    code, output = user.answer_pipeline(["", "", "", ""], "init", "--config", "other", "--script", "train.py")
    assert code == 0 and "[local]" in output


@pytest.mark.parametrize(
    "name", ["root@127.0.0.1", "ssh root@127.0.0.1 -p 9 -o UserKnownHostsFile=known", "127.0.0.1:22", "not a name"]
)
def test_SE_the_name_of_a_host_file_is_not_used_as_an_address(user: User, typed: Typed, name: str) -> None:
    """`init` logged in to the address in the name of a cloned project's only host file."""
    folder = user.project / "configs" / "hosts"
    folder.mkdir(parents=True)
    (folder / f"{name}.yaml").write_text("host: 127.0.0.1\n")
    result = typed("init", "--config", "mine", "--script", "train.py", "--yes")
    assert result.code == 0 and "host: local (the default)" in result.out + result.err
    assert [path.stem for path in folder.iterdir()] == [name]


def test_the_hint_to_overwrite_a_config_keeps_the_options_that_were_typed(user: User, typed: Typed) -> None:
    words = ("--host", "rig", "--config", "tiny", "--script", "train.py", "--card", "titan-rtx", "--yes")
    first = typed("init", *words)
    assert first.code == 0 and "replaces the config tiny that comes with halfstep" in first.out
    again = typed("init", *words, "--json").json["findings"][0]["hint"]
    assert {*words, "--force"} <= {*shlex.split(again)}
    assert typed(*shlex.split(again)[1:]).code == 0
    assert 'card: "titan-rtx"' in (user.project / "configs/hosts/rig.yaml").read_text()


def test_an_existing_config_is_reported_before_any_question(user: User) -> None:
    (user.project / "configs").mkdir()
    (user.project / "configs" / "mine.yaml").write_text("train: {epochs: 1}\n")
    code, output = user.answer_pipeline([], "init", "--config", "mine")
    assert code == 2 and "mine.yaml exists already" in output and "pipeline init --config mine --force" in output
    assert "host (an alias" not in output and "which of these" not in output


@pytest.mark.parametrize(("answer", "verb"), [("y", "run"), ("n", "verify")])
def test_the_next_command_creates_the_environment_that_was_chosen(user: User, answer: str, verb: str) -> None:
    (user.project / "requirements.txt").write_text("torch\n")
    words = ("--host", "rig", "--config", "mine", "--script", "train.py", "--card", "titan-rtx")
    code, output = user.answer_pipeline(["rig.example", "", answer], "init", *words)
    assert code == 0, output
    assert [line.strip() for line in output.splitlines() if "next:" in line] == [
        f"next: pipeline {verb} --host rig --config mine"
    ]


def test_a_module_of_a_src_package_runs_as_init_configured_it(user: User, typed: Typed) -> None:
    package = user.project / "src" / "kws"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "data.py").write_text("x = 1\n")
    (package / "train.py").write_text("from kws.data import x\nif __name__ == '__main__':\n    train(x)\n")
    assert typed("init", *NAMES, "--script", "src/kws/train.py").code == 0
    config = load_config("mine", user.project).config
    assert (config.command, config.env) == (("python", "-m", "kws.train"), {"PYTHONPATH": "src"})


def test_a_host_that_was_chosen_without_a_question_is_shown(user: User, typed: Typed) -> None:
    (user.home / ".ssh").mkdir()
    (user.home / ".ssh" / "config").write_text("Host titan\n")
    result = typed("init", "--config", "mine", "--script", "train.py")
    assert result.code == 0 and "host: titan (the default)" in result.out


def test_a_script_that_was_named_is_the_command(user: User, typed: Typed) -> None:
    (user.project / "go.sh").write_text("python train.py --lr 1e-4\n")
    for script, program in (("train.py", "python"), ("go.sh", "bash"), ("src/train_teacher.py", "python")):
        result = typed("init", *NAMES, "--script", script, "--force")
        assert result.code == 0 and "command:" not in result.out
        assert load_config("mine", user.project).config.command == (program, script)


def test_a_project_without_a_training_script_says_that_the_trainer_is_the_built_in_one(
    user: User, typed: Typed
) -> None:
    for path in ("train.py", "src/train_teacher.py", "train_ask.py"):
        (user.project / path).write_text("import torch\n")
    result = typed("init", *NAMES)
    assert result.code == 0 and "use --script PATH for your own" in result.out + result.err
    assert "which runs none of them" in result.out + result.err
    assert "command: null" in (user.project / "configs" / "mine.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "code"), [((), 2), (("--data", "data"), 0), (("--script", "train.py"), 0), (("--json",), 2)]
)
def test_yes_does_not_choose_the_built_in_trainer_for_a_project_with_code(
    user: User, typed: Typed, words: tuple[str, ...], code: int
) -> None:
    (user.project / "data").mkdir()
    for path in ("train.py", "src/train_teacher.py", "train_ask.py"):
        (user.project / path).write_text("import torch\n")
    result = typed("init", *NAMES, "--yes", *words)
    assert result.code == code, result.out + result.err
    assert (user.project / "configs" / "mine.yaml").exists() is (code == 0)
    assert ("none of them was recognised as a training script" in result.out + result.err) is (code != 0)


@pytest.mark.parametrize("words", [(), ("--host", "local")])
def test_the_script_that_was_found_is_named(user: User, typed: Typed, words: tuple[str, ...]) -> None:
    for path in ("src/train_teacher.py", "train_ask.py"):
        (user.project / path).unlink()
    result = typed("init", "--config", "mine", "--yes", *words)
    assert result.code == 0 and "training script: train.py" in result.out
    given = typed("init", "--config", "other", "--yes", "--script", "train.py", *words)
    assert given.code == 0 and "training script" not in given.out


@pytest.mark.parametrize("link", ["configs", "configs/mine.yaml"])
def test_SE_12_no_config_is_written_through_a_link_of_a_cloned_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], link: str
) -> None:
    project, victim = tmp_path / "project", tmp_path / ".config"
    (project / link).parent.mkdir(parents=True)
    victim.mkdir()
    (project / link).symlink_to(victim / "mine.yaml" if link.endswith(".yaml") else victim)
    monkeypatch.chdir(project)
    assert run(["init", "--host", "local", "--config", "mine", "--force"]) == 2
    assert list(victim.iterdir()) == [] and "is a symbolic link" in capsys.readouterr().err


def test_an_empty_folder_gets_the_demo_and_a_message_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--yes", "--host", "local", "--config", "first"]) == 0
    printed = capsys.readouterr().out
    assert "no training script was found: this config is the demo" in printed and "--script PATH" in printed
    (tmp_path / "data").mkdir()
    assert run(["init", "--yes", "--host", "local", "--config", "second", "--data", "data"]) == 0
    assert "demo" not in capsys.readouterr().out


@pytest.mark.parametrize("named", [True, False])
def test_a_script_that_was_named_is_started_itself_and_the_shell_script_is_only_mentioned(
    user: User, typed: Typed, named: bool
) -> None:
    (user.project / "src/train_teacher.py").unlink()
    (user.project / "run.sh").write_text("torchrun train.py --lr 1e-4\npython evaluate.py\n")
    result = typed("init", *NAMES, *(("--script", "train.py") if named else ()))
    assert result.code == 0 and ("run.sh starts train.py too" in result.out) is named
    assert ("command: bash run.sh" in result.out) is not named
    assert load_config("mine", user.project).config.command == (("python", "train.py") if named else ("bash", "run.sh"))


@pytest.mark.parametrize("replaced", [False, True])
def test_SE_init_confirms_the_host_file_that_it_wrote_and_not_one_that_replaced_it(
    user: User, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    monkeypatch.setenv("HOME", str(user.home))
    file = user.project / "configs" / "hosts" / "local.yaml"
    chosen = "host: local\ncontainer: {image: lab/torch}\n"

    def write_and_replace(path: Path, data: bytes, mode: int, *, root: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{data.decode()}python: ./theirs\n" if replaced else data.decode())

    monkeypatch.setattr(init, "write_atomic", write_and_replace)
    answers = Answers("mine", "local", "local", "", "")
    assert init._write({file: chosen}, answers, Screen(), user.project, [], force=False) == 0
    with pytest.raises(HostFileUntrusted) if replaced else nullcontext():
        require_trust(load_host("local", user.project), None)
