"""The packages that a project requires, read from requirements files or pyproject.toml."""

import tracemalloc

import pytest

from fixers.setup.environment import contents_of
from fixers.setup.project_packages import NoPackages, ProjectPackages, names_of, read_packages
from fixers.setup.trainer_packages import TRAINER_REQUIREMENTS
from fixers.sources.unparsable import LARGEST_TEXT
from tests.contracts.project_modules import ROOT
from tests.fixers.setup_rig import MemoryTree, site_at

PYPROJECT = b'[project]\nname = "x"\ndependencies = ["six>=1", "idna"]\n'


@pytest.mark.parametrize(
    ("files", "settings", "packages"),
    [
        ({}, {}, ProjectPackages()),
        ({"requirements.txt": b""}, {}, ProjectPackages(("requirements.txt",))),
        ({"pyproject.toml": PYPROJECT}, {}, ProjectPackages((), ("six>=1", "idna"))),
        ({"requirements.txt": b"", "pyproject.toml": PYPROJECT}, {}, ProjectPackages(("requirements.txt",))),
        ({"pyproject.toml": b"[tool.ruff]\nline-length = 100\n"}, {}, ProjectPackages()),
        (
            {"r.txt": b"", "pyproject.toml": PYPROJECT},
            {"requirements": ["r.txt", "pyproject.toml"]},
            ProjectPackages(("r.txt",), ("six>=1", "idna")),
        ),
        ({"requirements.txt": b""}, {"requirements": []}, ProjectPackages()),
    ],
)
def test_requirement_files_come_before_the_dependencies_of_pyproject(files, settings, packages):
    assert read_packages(MemoryTree(files), settings) == packages


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'[project]\ndynamic = ["dependencies"]\n', "has dynamic dependencies"),
        (b"[project", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"a = " + b"[" * 9000, "cannot be read"),
        (b"project = 1\n", "is not a table"),
        (b'[project]\ndependencies = "six"\n', "is not a list of strings"),
    ],
)
def test_a_pyproject_without_static_dependencies_is_reported(data, words):
    with pytest.raises(NoPackages, match=words) as refusal:
        read_packages(MemoryTree({"pyproject.toml": data}), {})
    assert refusal.value.hint == "write the packages into requirements.txt"


def test_the_trainers_packages_are_those_of_the_extra_with_its_bounds():
    text = (ROOT / "pyproject.toml").read_text()
    extra = text.partition("train = [")[2].partition("]")[0]
    assert [line.strip(' ",') for line in extra.splitlines() if line.strip()] == list(TRAINER_REQUIREMENTS.values())


@pytest.mark.parametrize(
    ("files", "packages", "names"),
    [
        ({"r.txt": b"six\nPy_YAML >=6 # parser\r\nsoundfile[numpy]~=0.13\n"}, (), {"six", "py-yaml", "soundfile"}),
        ({"r.txt": b"librosa @ file:///librosa.whl\nidna; python_version>'3'"}, (), {"librosa", "idna"}),
        ({"r.txt": b"-r more.txt\n-c limits.txt\n", "more.txt": b"six", "limits.txt": b"idna"}, (), {"six"}),
        ({"r.txt": b"# soundfile\n-e .\n./soundfile\nsrc/soundfile\n--no-deps\n\n"}, (), set()),
        ({"r.txt": b""}, ("soundfile>=0.13", "numpy"), {"soundfile", "numpy"}),
    ],
)
def test_the_names_in_requirements_are_normalized(files, packages, names):
    assert names_of(MemoryTree(files), ProjectPackages(("r.txt",), packages)) == names


def test_SE_many_blank_lines_are_read_in_linear_time():
    files = {"r.txt": b"\n" * 300_000 + b" -r more.txt", "more.txt": b"six"}
    assert names_of(MemoryTree(files), ProjectPackages(("r.txt",), ())) == {"six"}


@pytest.mark.parametrize(
    "files",
    [
        {"requirements.txt": b"ab\n" * (LARGEST_TEXT // 3 + 1)},
        {
            "requirements.txt": b"-r a.txt\n-r b.txt\n",
            **dict.fromkeys(("a.txt", "b.txt"), b"ab\n" * (LARGEST_TEXT // 6)),
        },
        {"requirements.txt": b"six\n-c c.txt\n", "c.txt": b"six<2\n" * (LARGEST_TEXT // 6)},
    ],
    ids=["one", "in all", "constraints"],
)
def test_SE_requirements_that_are_too_large_are_refused(files):
    with pytest.raises(NoPackages, match="more than 4 MiB in all are not read") as refusal:
        read_packages(MemoryTree(files), {})
    assert refusal.value.where in files
    assert contents_of(site_at(None, files, settings={"environment": "create"})) == ""


def test_SE_the_lines_of_requirements_are_not_kept():
    files = {f"r{number}.txt": b"ab\n" * 10_000 for number in range(10)}
    tracemalloc.start()
    try:
        assert names_of(MemoryTree(files), ProjectPackages(tuple(files))) == {"ab"}
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()
