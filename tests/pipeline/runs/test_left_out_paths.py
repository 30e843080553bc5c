"""A path of the project that is read but not sent, because an ignore file excludes it, is reported before any start."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.runs.laptop_paths import _line_finder, laptop_paths
from pipeline.runs.view import View
from remote.host import Host
from remote.link.local import local_host
from remote.project import rule_files
from remote.project.ignore import Rules
from remote.project.scan import scan_project
from remote.protocol.findings import Finding
from tests.lab.payload import install_payload
from tests.pipeline.views import view_of

FILES = ("models/toy/config.json", "temp/data/bank/train.jsonl", "sets/a.wav", "output/toy/weights.bin", "kept/b.wav")
LOADS = "p.add_argument('--base_model')\nargs = p.parse_args()\nM.from_pretrained(args.base_model)\n"
JOINS = "base = 'temp/data/bank'\nrows = load_dataset('json', data_files=os.path.join(base, 'train.jsonl'))\n"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = local_host(str(install_payload(tmp_path / "host")))
    yield host
    host.close()


def view(root: Path, script: str, *words: str, overrides: tuple[str, ...] = (), rules: str = "") -> View:
    """Return a project whose folders of models, data and outputs are excluded by .gitignore."""
    view = view_of(root)
    for path in FILES:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("{}")
    (root / ".gitignore").write_text("models/\ntemp/\nsets/\noutput/\n")
    (root / ".pipelineignore").write_text(rules)
    (root / "train.py").write_text(script)
    command = ", ".join(("python", "train.py", *words))
    (root / "configs/plain.yaml").write_text(f"project: .\ncommand: [{command}]\n")
    return replace(view, scan=scan_project(root), loaded=load_config("plain", root, overrides))


def found(host: Host, seen: View) -> list[Finding]:
    return [one for one in laptop_paths(host, seen).findings if one.check == "laptop-path"]


@pytest.mark.parametrize(
    ("script", "words", "severity", "where"),
    [
        (LOADS, ("--base_model=models/toy",), "error", "plain.yaml:2"),
        (LOADS, ("--base_model", "./models/toy/"), "error", "plain.yaml:2"),
        (f"{LOADS}os.path.basename(args.base_model)\n", ("--base_model=models/toy",), "warning", "plain.yaml:2"),
        ("M.from_pretrained('models/toy')\n", (), "error", "train.py:1"),
        (JOINS.replace("temp/data/bank", "models/toy"), (), "warning", "train.py:1"),
    ],
)
def test_a_model_that_git_ignores_is_named_with_the_line_that_sends_it(
    host: Host, tmp_path: Path, script: str, words: tuple[str, ...], severity: str, where: str
) -> None:
    root = tmp_path / "project"
    [finding] = found(host, view(root, script, *words))
    assert (finding.severity.value, finding.where.endswith(where)) == (severity, True)
    assert finding.message.startswith("models/toy is not sent, because .gitignore or .pipelineignore excludes it")
    assert finding.hint.startswith("write the line !/models into .pipelineignore")
    assert found(host, view(root, script, *words, rules="!/models\n")) == []


def test_data_in_an_ignored_folder_that_the_script_joins_are_named(host: Host, tmp_path: Path) -> None:
    root = tmp_path / "project"
    [finding] = found(host, view(root, JOINS))
    assert finding.where == "train.py:1" and finding.message.startswith("temp/data/bank is not sent")
    assert finding.hint.startswith("write the line !/temp into .pipelineignore, which sends the whole folder temp; or")
    assert found(host, view(root, JOINS, rules="!/temp\n")) == []
    assert found(host, view(root, JOINS, overrides=("data.path=temp/data",))) == []


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("PHOTOS = Path('./sets/photos/')\nfor one in PHOTOS.iterdir():\n    print(one)\n", 1),
        ("import glob\n\nROOT = 'sets/photos'\nnames = sorted(glob.glob(f'{ROOT}/*.JPG'))\n", 3),
    ],
)
def test_a_constant_that_names_an_ignored_folder_of_images_is_reported(
    host: Host, tmp_path: Path, script: str, line: int
) -> None:
    seen = view(tmp_path / "project", script)
    (tmp_path / "project/sets/photos").mkdir()
    (tmp_path / "project/sets/photos/1.JPG").touch()
    [finding] = found(host, seen)
    assert finding.where == f"train.py:{line}" and finding.message.startswith("sets/photos is not sent")


def test_a_folder_of_which_git_tracks_only_an_empty_file_is_not_sent(host: Host, tmp_path: Path) -> None:
    """The host has this folder already, with the empty file in it."""
    root = tmp_path / "project"
    (root / "corpus/in").mkdir(parents=True)
    (root / "corpus/in/.gitkeep").touch()
    script, rules = "names = [one.name for one in Path('corpus/in').glob('*')]\n", "corpus/in/*\n!.gitkeep\n"
    seen = replace(view(root, script, rules=rules), workdir=str(tmp_path / "host"))
    assert found(host, seen) == []
    (root / "corpus/in/1.png").touch()
    seen = replace(view(root, script, rules=rules), workdir=seen.workdir)
    on_host = Path(seen.workdir, seen.layout.tree, "corpus/in")
    on_host.mkdir(parents=True)
    [finding] = found(host, seen)
    assert (finding.where, finding.message.partition(",")[0]) == ("train.py:1", "corpus/in is not sent")
    (on_host / "1.png").touch()
    assert found(host, seen) == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (LOADS, ("--base_model=owner/name",)),
        ("model.save_pretrained('output/toy')\n", ()),
        ("", ("--output_dir=sets",)),
        ("row['sets']\n", ()),
        ("open('kept/b.wav')\n", ("--data=kept",)),
        ("at = 'models/toy'\nif os.path.isdir(at):\n    M.from_pretrained(at)\n", ()),
    ],
)
def test_hub_ids_outputs_and_files_that_are_sent_are_not_reported(
    host: Host, tmp_path: Path, script: str, words: tuple[str, ...]
) -> None:
    assert found(host, view(tmp_path / "project", script, *words)) == []


def test_a_path_that_the_project_on_the_host_has_is_not_reported(host: Host, tmp_path: Path) -> None:
    seen = view(tmp_path / "project", LOADS, "--base_model=models/toy")
    seen = replace(seen, workdir=str(tmp_path / "host"))
    assert len(found(host, seen)) == 1
    Path(seen.workdir, seen.layout.tree, "models/toy").mkdir(parents=True)
    assert found(host, seen) == []


@pytest.mark.parametrize(
    "form",
    ['os.environ.get("HALFSTEP_DATA_DIR", "../sets") + "/x"', 'os.environ.get("HALFSTEP_DATA_DIR") or "../sets/x"'],
)
def test_a_fallback_for_the_data_folder_is_no_laptop_path_once_data_are_configured(
    host: Host, tmp_path: Path, form: str
) -> None:
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets/x").touch()
    assert len(found(host, view(tmp_path / "project", f"open({form})\n"))) == 1
    assert found(host, view(tmp_path / "project", f"open({form})\n", overrides=("data.path=../sets",))) == []


def test_SE_an_excluded_folder_is_listed_once_however_often_a_script_names_it(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each listing of a folder of many files takes long."""
    walk, listed = os.walk, list[str]()

    def counted(top: str | Path, *args: object, **more: bool) -> object:
        listed.append(str(top))
        return walk(top, *args, **more)  # type: ignore[arg-type]

    root = tmp_path / "project"
    names = "\n".join(["names = ['sets/a.wav', 'temp/data/bank']"] * 200)
    seen = view(root, names)
    monkeypatch.setattr(os, "walk", counted)
    assert found(host, seen) != []
    assert listed.count(str(root / "temp/data/bank")) == 1


@pytest.mark.parametrize(
    ("git", "lines"),
    [
        ("*.json\n", "line !/models/toy/**"),
        ("models/toy/*\n", "line !/models/toy/**"),
        ("models/\n*.json\n", "lines !/models and !/models/**"),
        ("/models\n*.bin\n", "line !/models"),
        ("toy\n", "line !/models/toy"),
    ],
)
def test_the_lines_of_the_hint_send_the_files_whatever_the_other_rules_exclude(
    host: Host, tmp_path: Path, git: str, lines: str
) -> None:
    root, script = tmp_path / "project", "M.from_pretrained('models/toy')\n"
    seen = view(root, script)
    (root / "models/readme.txt").touch()
    (root / ".gitignore").write_text(git)
    [finding] = found(host, replace(seen, scan=scan_project(root)))
    assert finding.hint.startswith(f"write the {lines} into .pipelineignore")
    (root / ".pipelineignore").write_text("\n".join(lines.split(" ", 1)[1].split(" and ")))
    assert found(host, replace(seen, scan=scan_project(root))) == []


def test_no_line_is_proposed_if_another_pipelineignore_excludes_the_files(host: Host, tmp_path: Path) -> None:
    root = tmp_path / "project"
    seen = view(root, "M.from_pretrained('models/toy')\n")
    (root / ".gitignore").write_text("")
    (root / "models/toy/.pipelineignore").write_text("*.json\n")
    [finding] = found(host, replace(seen, scan=scan_project(root)))
    assert finding.hint.startswith("delete the rule that excludes it from the .pipelineignore of a folder on its path")


@pytest.mark.parametrize("sent", [False, True], ids=["the same line for all", "a line for each"])
def test_SE_the_ignore_files_are_read_once_for_the_hints_of_all_paths(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bool
) -> None:
    root = tmp_path / "project"
    names = [f"sets/n{number}.wav" for number in range(30)]
    seen = view(root, f"for name in {names}: open(name)\n")
    for name in names:
        (root / name).touch()
    (root / "sets/.gitignore").write_text("*.flac\n")
    (root / "sets/kept.txt").touch()
    (root / ".gitignore").write_text("sets/*.wav\n" if sent else "sets/*\n")
    seen, parsed, parse = replace(seen, scan=scan_project(root)), list[bytes](), rule_files.parse_rules

    def counted(data: bytes, *args: str, **more: bool) -> Rules:
        parsed.append(data)
        return parse(data, *args, **more)

    monkeypatch.setattr(rule_files, "parse_rules", counted)
    hints = {one.hint.partition(";")[0] for one in found(host, seen)}
    assert len(hints) == (30 if sent else 1) and all(one.startswith("write the line !/sets") for one in hints)
    assert len(parsed) <= 3


def test_SE_lines_are_tried_for_a_limited_number_of_files(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = view(tmp_path / "project", "open('sets/a.wav')\nM.from_pretrained('models/toy')\n")
    monkeypatch.setattr("pipeline.runs.laptop_paths.MOST_JUDGED", 1)
    hints = sorted(one.hint.partition(";")[0] for one in found(host, seen))
    assert hints == [
        "write a line that begins with !/ and matches this path into .pipelineignore",
        "write the line !/sets into .pipelineignore, which sends the whole folder sets",
    ]


@pytest.mark.parametrize("form", ["comments", "words"])
def test_SE_the_lines_of_many_paths_in_a_config_are_found_by_bisection(form: str) -> None:
    count = 4000
    words = [f"/srv/{number:x}" for number in range(count)]
    text = "#\n" * 40_000 + ("\n" if form == "comments" else "\r\n").join(words)
    line_of = _line_finder(text)
    began = time.process_time()
    assert [line_of(word) for word in words[0x100:]] == list(range(40_001 + 0x100, 40_001 + count))
    assert time.process_time() - began < 5  # a minute if the text is divided for each path
    assert line_of("/srv/none") == 0 and line_of("#") == 1


@pytest.mark.parametrize(
    ("shell", "where"),
    [
        ("python train.py --data ./temp/data/bank\n", ["run.sh:1"]),
        ("set=bank\n\npython train.py --fp16 \\\n  --data ./temp/data/$set\n", ["run.sh:4"]),
        ('part=bank\nDATA="temp/data/$part"\npython train.py --data $DATA/train.jsonl\n', ["run.sh:2"]),
        ("set=other\nset=bank\npython train.py --data=temp/data/${set}\n", ["run.sh:3"]),
        ("set=$1\npython train.py --data ./temp/data/$set\n", []),
        ("set=toy\npython train.py --output_dir models/$set --save_path=models/toy\n", []),
        ("save_path=models/toy\npython train.py --output_dir $save_path\n", []),
    ],
)
def test_the_variables_of_a_shell_script_are_part_of_the_paths(
    host: Host, tmp_path: Path, shell: str, where: list[str]
) -> None:
    root = tmp_path / "project"
    seen = view(root, "print()\n")
    (root / "run.sh").write_text(shell)
    (root / "configs/plain.yaml").write_text("project: .\ncommand: [bash, run.sh]\n")
    seen = replace(seen, scan=scan_project(root), loaded=load_config("plain", root, ()))
    assert [one.where for one in found(host, seen)] == where
