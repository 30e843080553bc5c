"""The environment in which the payload runs the project's interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from remote.payload.fix.hub_client import ask_hub_client
from remote.payload.probes.compute_node import Place
from remote.payload.probes.project_python import ask_python

JOB = {
    "PYTHONPATH": "/project/src",
    "PYTHONHOME": "/project",
    "LD_PRELOAD": "/project/evil.so",
    "LD_LIBRARY_PATH": "/project/lib",
    "DYLD_INSERT_LIBRARIES": "/project/evil.dylib",
    "HF_HOME": "/cache",
    "HF_TOKEN": "hf_x",
}


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A program that answers with the variables of its environment."""
    path = tmp_path / "python"
    path.write_text(f"#!{sys.executable} -I\nimport json, os\nprint(json.dumps(dict(os.environ)))\n")
    path.chmod(0o755)
    return str(path)


def test_a_client_of_the_hub_gets_no_variable_that_loads_code(python: str) -> None:
    got = ask_hub_client(python, "payload.pyz", {}, JOB, 20.0)
    assert got["HF_HOME"] != "/cache"
    assert {name: got.get(name) for name in JOB if name != "HF_HOME"} == {
        **dict.fromkeys(name for name in JOB if name != "HF_HOME"),
        "HF_TOKEN": "",
    }


def test_a_test_of_the_interpreter_gets_every_variable_of_the_job(python: str) -> None:
    harmless = {name: value for name, value in JOB.items() if name not in ("LD_PRELOAD", "PYTHONHOME")}
    got = ask_python(python, Place("payload.pyz"), "probe-torch", {}, harmless, 20.0)
    assert {name: got.get(name) for name in harmless} == harmless
