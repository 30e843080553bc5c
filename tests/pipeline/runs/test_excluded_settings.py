"""Settings files and programs that the command names, and that are not sent."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.runs.laptop_paths import require_paths
from pipeline.runs.view import View
from remote.errors import BadUsage
from remote.host import Host
from remote.link.local import local_host
from remote.project.scan import scan_project
from remote.protocol.exits import ExitCode
from tests.lab.payload import install_payload
from tests.pipeline.runs.test_left_out_paths import found, view

FILES = ("models/toy/config.json", "temp/data/bank/train.jsonl", "sets/a.wav", "output/toy/weights.bin", "kept/b.wav")
LOADS = "p.add_argument('--base_model')\nargs = p.parse_args()\nM.from_pretrained(args.base_model)\n"
JOINS = "base = 'temp/data/bank'\nrows = load_dataset('json', data_files=os.path.join(base, 'train.jsonl'))\n"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = local_host(str(install_payload(tmp_path / "host")))
    yield host
    host.close()


def project_with_config(root: Path, command: str, git: str = "config/*\n", rules: str = "", **files: str) -> View:
    """Return a project whose settings file `config/config.yaml` is excluded by .gitignore."""
    seen = view(root, "import sys\nprint(open(sys.argv[2]).read())\n", rules=rules)
    for name, text in {"config/config.yaml": "lr: 1\n", **files}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    (root / ".gitignore").write_text(git)
    (root / "configs/plain.yaml").write_text(f"project: .\ncommand: {command}\n")
    return replace(seen, scan=scan_project(root), loaded=load_config("plain", root, ()))


NAMED = [
    "[python, train.py, -c, config/config.yaml]",
    "[python, train.py, --config=./config/config.yaml]",
    "[python, train.py, config=config/config.yaml]",
    "[python, train.py, config/config.yaml]",
    "[python, train.py, logs.py, config/config.yaml]",
    "[accelerate, launch, --config_file, config/config.yaml, train.py]",
    "[bash, -c, 'python train.py -c config/config.yaml']",
]


@pytest.mark.parametrize("command", NAMED)
def test_a_settings_file_that_the_command_names_and_git_ignores_is_an_error(
    host: Host, tmp_path: Path, command: str
) -> None:
    root = tmp_path / "project"
    [finding] = found(host, project_with_config(root, command))
    assert (finding.severity.value, finding.hint) == (
        "error",
        "write the line !/config/config.yaml into .pipelineignore",
    )
    with pytest.raises(BadUsage) as refused:
        require_paths(host, project_with_config(root, command))
    assert refused.value.findings == (finding,) and refused.value.exit_code is ExitCode.ENVIRONMENT
    assert found(host, project_with_config(root, command, rules="!/config/config.yaml\n")) == []


ONLY = "lines !/config, /config/* and !/config/config.yaml"


@pytest.mark.parametrize(
    ("git", "lines"),
    [
        ("config/\n", ONLY),
        ("config\n", ONLY),
        ("*.yaml\n!configs/*.yaml\n", "line !/config/config.yaml"),
        ("*.yaml\nconfig/\n!configs/*.yaml\n", ONLY),
    ],
)
def test_the_lines_of_a_settings_file_send_no_other_file_of_its_folder(
    host: Host, tmp_path: Path, git: str, lines: str
) -> None:
    root = tmp_path / "project"
    [finding] = found(host, project_with_config(root, NAMED[0], git))
    assert finding.hint == f"write the {lines} into .pipelineignore"
    (root / "config/weights.bin").touch()
    rules = "\n".join(re.split(", | and ", lines.partition(" ")[2]))
    seen = project_with_config(root, NAMED[0], git, rules=rules)
    assert found(host, seen) == []
    assert "config/config.yaml" in seen.scan.paths()
    assert ("config/weights.bin" in seen.scan.paths()) is ("config" not in git.replace("configs", ""))
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    assert _listed_by_git(root, git + rules) == {each for each in seen.scan.paths() if each.startswith("config/")}


def test_a_line_that_sends_the_folder_sends_what_git_lists(host: Host, tmp_path: Path) -> None:
    root = tmp_path / "project"
    project_with_config(root, NAMED[0])
    (root / "config/weights.bin").touch()
    seen = project_with_config(root, NAMED[0], "config/\n", rules="!/config\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    assert _listed_by_git(root, "config/\n!/config\n") == {"config/config.yaml", "config/weights.bin"}
    assert {"config/config.yaml", "config/weights.bin"} <= set(seen.scan.paths())


def _listed_by_git(root: Path, rules: str) -> set[str]:
    (root / ".gitignore").write_text(rules)
    words = ["git", "-C", str(root), "ls-files", "--others", "--exclude-standard", "config/"]
    return set(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("program", ["train.py", "./tools/start", "tools/go.sh"])
def test_a_program_that_git_ignores_is_an_error(host: Host, tmp_path: Path, program: str) -> None:
    words = {"train.py": "python, train.py", "tools/go.sh": "bash, tools/go.sh"}.get(program, program)
    files = {"tools/start": "#!/bin/sh\n", "tools/go.sh": "python other.py\n"}
    [finding] = found(host, project_with_config(tmp_path / "project", f"[{words}]", "train.py\ntools/*\n", **files))
    assert finding.severity.value == "error" and finding.message.startswith(program.removeprefix("./"))


@pytest.mark.parametrize(
    "command",
    [
        "[python, train.py, --save_config, config/config.yaml]",
        "[python, train.py, --output, config/config.yaml]",
        "[python, train.py, --metrics-file=config/config.yaml]",
        "[python, train.py, -o, config/config.yaml]",
        "[python, train.py, --output_dir, config]",
        "[python, train.py, -c, config/other.yaml]",
        "[python, train.py, -c, output/config.yaml]",
    ],
)
def test_a_settings_file_that_the_command_writes_or_that_is_missing_is_not_an_error(
    host: Host, tmp_path: Path, command: str
) -> None:
    files = {"output/config.yaml": "lr: 1\n"}
    seen = project_with_config(tmp_path / "project", command, "config/*\noutput/\n", **files)
    assert [one for one in found(host, seen) if one.severity.value == "error"] == []
    require_paths(host, seen)


@pytest.mark.parametrize(
    ("shell", "certain"),
    [
        ("python train.py -c config/config.yaml\n", True),
        ("CONFIG=config/config.yaml\npython train.py -c $CONFIG\n", True),
        ('CONFIG=config/config.yaml\nexec accelerate launch train.py --config "${CONFIG}" "$@"\n', True),
        ("set -e\nsource config/config.yaml\npython train.py\n", True),
        ("source config/config.yaml 2>/dev/null || true\npython train.py\n", False),
        ("if false; then source config/config.yaml; fi\npython train.py\n", False),
        ("CONFIG=config/config.yaml\ncat > $CONFIG <<EOF\nlr: 1\nEOF\npython train.py -c $CONFIG\n", False),
        (
            'CONFIG=config/config.yaml\n[ -f "$CONFIG" ] || cp default.yaml "$CONFIG"\npython train.py -c $CONFIG\n',
            False,
        ),
        ("cp default.yaml config/config.yaml\npython train.py -c config/config.yaml\n", False),
        ("cat > config/config.yaml <<EOF\nlr: 1\nEOF\npython train.py -c config/config.yaml\n", False),
        ("python prepare.py\npython train.py -c config/config.yaml\n", False),
        ("[ -f config/config.yaml ] && python train.py -c config/config.yaml\n", False),
        ("CONFIG=config/config.yaml\npython prepare.py\npython train.py -c $CONFIG\n", False),
        ("CONFIG=config/config.yaml\npython train.py\n", False),
        ("touch config/config.yaml\npython train.py\n", False),
        ("python train.py --save_config config/config.yaml\n", False),
    ],
)
def test_a_settings_file_that_a_shell_script_names_is_an_error_if_the_script_cannot_create_it(
    host: Host, tmp_path: Path, shell: str, certain: bool
) -> None:
    seen = project_with_config(tmp_path / "project", "[bash, run.sh]", **{"run.sh": shell, "default.yaml": "lr: 1\n"})
    severities = [one.severity.value for one in found(host, seen)]
    assert severities == ["error"] if certain else "error" not in severities
    assert not severities or shell.split(maxsplit=1)[0] not in ("cp", "touch")
