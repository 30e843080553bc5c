"""Which package versions a project pins, and which of its files are read for pins."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange
from fixers.frame.disk_tree import DiskTree
from fixers.frame.pins import nearest_pins, pins_by_folder, project_pins
from fixers.frame.site import Site
from fixers.plans.site_plan import plan_fixes
from fixers.sources.unparsable import LARGEST_TEXT
from tests.fixers.casebook import TITAN_RTX


def pinned_packages(tree: DiskTree) -> dict[str, str]:
    return project_pins(pins_by_folder(tree))


PROJECT = '[project]\nname = "x"\ndependencies = ["transformers==4.37.2", "torch>=2.1"]\n'
PINS = {"transformers": "4.37.2"}


@pytest.mark.parametrize(
    ("line", "pin"),
    [
        ("transformers==4.46.1", "4.46.1"),
        ("transformers[torch] == 4.46.1  # why", "4.46.1"),
        ("transformers<5", "4.999"),
        ("transformers<4.50", "4.49.999"),
        ("transformers<4.50.0", "4.49.999"),
        ("transformers<=4.49", "4.49"),
        ("transformers>=4.30,<4.50", "4.49.999"),
        ("transformers (==4.46.1); python_version > '3.8'", "4.46.1"),
        ("transformers~=4.40", "4.40"),
        ("transformers!=4.40", ""),
        ("Transformers==4.1", "4.1"),
        ("transformers>=4.40", ""),
        ("transformers", ""),
        ("# transformers==4.1", None),
    ],
)
def test_pins_give_the_newest_permitted_version(tmp_path: Path, line: str, pin: str | None) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch\n{line}\n")
    assert pins_by_folder(DiskTree(tmp_path))[""].get("transformers") == pin


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("requirements.txt", "transformers==4.37.2\n"),
        ("requirements-train.txt", "transformers==4.37.2\n"),
        ("requirements/gpu.txt", "transformers==4.37.2\n"),
        ("pyproject.toml", PROJECT),
        ("pyproject.toml", '[project.optional-dependencies]\ntrain = ["transformers==4.37.2"]\n'),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = ">=3.9"\ntransformers = "4.37.2"\n'),
        ("pyproject.toml", '[tool.poetry.group.train.dependencies]\ntransformers = {version = "==4.37.2"}\n'),
        ("setup.py", 'from setuptools import setup\nsetup(install_requires=["transformers==4.37.2"])\n'),
        ("setup.cfg", "[options]\ninstall_requires =\n    torch\n    transformers==4.37.2\n"),
        ("setup.cfg", "[options.extras_require]\ntrain =\n    transformers==4.37.2\n"),
        ("environment.yaml", "dependencies:\n  - pip:\n    - transformers==4.37.2\n"),
        ("requirements.yaml", "dependencies:\n  - transformers=4.37.2\n"),
        ("environment.yml", "dependencies:\n  - transformers=4.37.2\n"),
    ],
)
def test_every_file_that_lists_packages_counts(tmp_path: Path, path: str, text: str) -> None:
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(text)
    assert pinned_packages(DiskTree(tmp_path)) == PINS


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("notes.txt", "transformers==4.37.2\n"),
        ("pyproject.toml", "[project\n"),
        ("pyproject.toml", "a = " + "[" * 9000 + "\n"),
        ("setup.py", "transformers==4.37.2 (\n"),
        ("setup.cfg", "install_requires = transformers==4.37.2\n"),
        ("config.yaml", "- transformers==4.37.2\n"),
        ("pyproject.toml", '[project]\ndependencies = "transformers==4.37.2"\n'),
    ],
)
def test_other_and_unreadable_files_pin_nothing(tmp_path: Path, path: str, text: str) -> None:
    (tmp_path / path).write_text(text)
    assert pinned_packages(DiskTree(tmp_path)) == {}


def test_requirements_come_before_pyproject_and_a_caret_of_poetry_ends_before_the_next_major(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("transformers==4.46.1\n")
    (tmp_path / "pyproject.toml").write_text(PROJECT.replace("torch>=2.1", "trl==0.8.1"))
    assert pinned_packages(DiskTree(tmp_path)) == {"transformers": "4.46.1", "trl": "0.8.1"}
    (tmp_path / "requirements.txt").unlink()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.poetry.dependencies]\ntransformers = "^4.37"\naccelerate = "^0.21"\n'
    )
    assert pinned_packages(DiskTree(tmp_path)) == {"transformers": "4.999", "accelerate": "0.21.999"}


def test_subfolders_count_only_where_they_agree(tmp_path: Path) -> None:
    for folder, line in (("a", "transformers==4.46.1\ntrl==0.8.1"), ("b", "transformers\ntrl==0.8.1")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "requirements.txt").write_text(line + "\n")
    assert pinned_packages(DiskTree(tmp_path)) == {"trl": "0.8.1"}


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("4.37.2", '--evaluation_strategy "no" --warmup_ratio 0.03'),
        ("4.46.1", '--evaluation_strategy "no" --warmup_ratio 0.03'),
        ("5.0.0", '--eval_strategy "no" --warmup_ratio 0.03'),
        ("5.15.0", '--eval_strategy "no" --warmup_steps 0.03'),
    ],
)
def test_a_launcher_gets_the_names_of_the_version_that_pyproject_pins(
    tmp_path: Path, version: str, options: str
) -> None:
    before = 'python train.py --output_dir out --evaluation_strategy "no" --warmup_ratio 0.03\n'
    (tmp_path / "pyproject.toml").write_text(PROJECT.replace("4.37.2", version))
    (tmp_path / "run.sh").write_text(before)
    (tmp_path / "train.py").write_text(
        "from transformers import HfArgumentParser, TrainingArguments\n"
        "args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
    )
    plan = plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX))
    changed = [change for change in plan.changes if isinstance(change, FileChange)]
    assert [(each.path, (each.after or b"").decode()) for each in changed] == (
        [] if options in before else [("run.sh", f"python train.py --output_dir out {options}\n")]
    )


RENAMED = 'from transformers import TrainingArguments\n\nargs = TrainingArguments("out", {})\n'


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"old/requirements_train.txt": "transformers==4.45.2\n"}, "warmup_ratio=0.1"),
        ({"old/requirements/base.txt": "transformers==4.45.2\n"}, "warmup_ratio=0.1"),
        ({"old/pyproject.toml": PROJECT}, "warmup_ratio=0.1"),
        ({"old/requirements.txt": "transformers\n"}, "warmup_steps=0.1"),
        ({"new/requirements.txt": "transformers==4.45.2\n"}, "warmup_steps=0.1"),
    ],
)
def test_the_nearest_file_above_a_script_says_its_versions(
    tmp_path: Path, files: dict[str, str], expected: str
) -> None:
    scripts = dict.fromkeys(("old/tune/train.py", "train.py"), RENAMED.format("warmup_ratio=0.1"))
    for path, text in {"requirements.txt": "transformers==5.15.0\n", **scripts, **files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    changed = {
        change.path: change.after.decode()
        for change in plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX)).changes
        if isinstance(change, FileChange)
    }
    assert expected in changed.get("old/tune/train.py", scripts["train.py"])
    assert "warmup_steps=0.1" in changed["train.py"]


def test_a_package_without_limit_takes_the_version_of_a_folder_further_up(tmp_path: Path) -> None:
    for folder, line in (("a", "transformers==4.46.1"), ("a/b", "transformers\ntrl==0.8.1")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "requirements.txt").write_text(line + "\n")
    assert nearest_pins(pins_by_folder(DiskTree(tmp_path)), "a/b/c/train.py") == {
        "transformers": "4.46.1",
        "trl": "0.8.1",
    }


@pytest.mark.parametrize("path", ["/abs/train.py", "train.py", "../train.py"])
def test_a_file_outside_the_project_has_no_pins(path: str) -> None:
    assert nearest_pins({"a": PINS}, path) == {}


def _write(root: Path, files: dict[str, str]) -> DiskTree:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return DiskTree(root)


COPY = {"ltu/hf/tf/setup.py": "", "ltu/hf/tf/src/transformers/__init__.py": '__version__ = "4.28.0.dev0"\n'}


@pytest.mark.parametrize(
    ("files", "version"),
    [
        (COPY, "4.28.0"),
        (COPY | {"ltu/hf/tf/examples/requirements.txt": "transformers\n"}, "4.28.0"),
        (COPY | {"ltu/requirements.txt": "transformers==4.30.0\n"}, "4.30.0"),
        (COPY | {"requirements.txt": "transformers\nhuggingface-hub==0.17.3\n"}, "4.28.0"),
        (COPY | {"ltu/requirements.txt": "transformers<5\n"}, "4.28.0"),
        ({"ltu/transformers/__init__.py": '__version__ = "4.28.0"\n'}, None),
        (COPY | {"ltu/hf/tf/src/transformers/__init__.py": "__version__ = read()\n"}, None),
        ({"setup.py": 'deps = ["huggingface-hub>=0.33.4,<1.0", "transformers>=4.53.3"]\n'}, "4.999"),
        ({"setup.py": 'deps = ["huggingface-hub>=0.33.4,<2.0", "transformers>=4.53.3"]\n'}, None),
        ({"requirements.txt": "huggingface_hub==0.20.1\ntransformers==4.37.0\n"}, "4.37.0"),
        ({"requirements.txt": "torch>=1.13.1,<2\ntransformers>=4.28.1,<5\n"}, "4.47.999"),
        ({"setup.py": 'deps = ["torch==1.13.1", "transformers"]\n'}, "4.47.999"),
        ({"requirements.txt": "torch<2\ntransformers<4.30\n"}, "4.29.999"),
        ({"requirements.txt": "torch>=2,<3\ntransformers>=4.28.1,<5\n"}, "4.999"),
        ({"README.md": "* transformers==4.31.0\n"}, "4.31.0"),
        ({"README.md": "`pip install transformers==4.31.0 torch`\n"}, "4.31.0"),
        ({"README.md": "transformers==4.31.0, or transformers==5.0.0\n"}, None),
        ({"README.md": "transformers==4.31.0\n", "requirements.txt": "transformers==4.40.0\n"}, "4.40.0"),
        ({"README.md": "transformers>=4.31.0\n"}, None),
        ({"notes.md": "transformers==4.31.0\n"}, None),
    ],
)
def test_copies_of_libraries_old_hubs_and_readmes_limit_the_version(
    tmp_path: Path, files: dict[str, str], version: str | None
) -> None:
    pins = pins_by_folder(_write(tmp_path, files))
    assert (project_pins(pins) | nearest_pins(pins, "ltu/train.py")).get("transformers") == version


@pytest.mark.parametrize("listed", ["transformers\nhuggingface-hub==0.17.3\n", "transformers<5\n"])
@pytest.mark.parametrize(("other", "version"), [("", "4.28.0"), ("transformers==4.60\n", None)])
def test_a_copy_overrides_upper_bounds_of_the_top_folder(
    tmp_path: Path, listed: str, other: str, version: str | None
) -> None:
    pins = pins_by_folder(_write(tmp_path, COPY | {"requirements.txt": listed, "text/requirements.txt": other}))
    assert project_pins(pins).get("transformers") == version


def test_an_exact_version_in_the_top_folder_counts_beside_a_copy(tmp_path: Path) -> None:
    pins = pins_by_folder(_write(tmp_path, COPY | {"requirements.txt": "transformers==4.30.0\n"}))
    assert project_pins(pins)["transformers"] == "4.30.0"


@pytest.mark.parametrize("name", ["requirements.txt", "README.md", "environment.yml", "setup.cfg"])
def test_SE_a_file_that_is_too_large_pins_nothing(tmp_path: Path, name: str) -> None:
    text = (
        "[options]\ninstall_requires =\n  - transformers==4.40.0\n"
        if name == "setup.cfg"
        else "- transformers==4.40.0\n"
    )
    text = text.replace("- ", "") if name in ("requirements.txt", "setup.cfg") else text
    assert pinned_packages(_write(tmp_path, {name: text})) == {"transformers": "4.40.0"}
    assert pinned_packages(_write(tmp_path, {name: text + "#" * LARGEST_TEXT})) == {}
