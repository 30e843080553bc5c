"""Imports of a library without the modules that halfstep does not need."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from remote.link.ssh.partial_import import without

ROOT = Path(__file__).resolve().parents[4]
LOAD = "from remote.link.ssh.starter import load_connection; load_connection()"


def imported_by(program: str) -> set[str]:
    """Return the names of the modules that a new process has imported after `program`."""
    program += "\nimport sys; print(*sys.modules)"
    argv = [sys.executable, "-c", program]
    return set(subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())


def test_the_connection_imports_neither_the_test_library_nor_the_yaml_of_fabric() -> None:
    found = imported_by(LOAD)
    assert "fabric" in found
    assert found & {"unittest", "unittest.mock", "asyncio", "invoke.vendor.yaml"} == set()


def test_the_test_library_can_be_imported_after_the_connection() -> None:
    program = f"{LOAD}\nfrom unittest.mock import Mock\nassert Mock()(1) is not None"
    assert "unittest.mock" in imported_by(program)


def test_the_models_of_configs_are_built_without_a_search_for_plugins_in_all_packages() -> None:
    found = imported_by("import pipeline.config.model, pipeline.config.hosts")
    assert "pydantic" in found
    assert "importlib.metadata" not in found


def test_a_connection_to_an_ascii_name_imports_no_codec_for_international_names() -> None:
    program = (
        "from remote.errors import CannotConnect\n"
        "from remote.link.ssh.route import ResolvedHop\n"
        "from remote.link.ssh.sockets import Timeouts, connect_socket\n"
        "import socket\n"
        "free = socket.socket(); free.bind(('127.0.0.1', 0))\n"
        "try: connect_socket(ResolvedHop('h', 'localhost', free.getsockname()[1]), Timeouts())\n"
        "except CannotConnect: pass"
    )
    assert "encodings.idna" not in imported_by(program)


def test_a_module_that_is_already_imported_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("json")
    monkeypatch.delitem(sys.modules, "this_is_missing", raising=False)
    before = sys.modules["json"]
    with without({"json": ("loads",), "this_is_missing": ("Name",)}):
        assert sys.modules["json"] is before
        assert importlib.import_module("this_is_missing").Name is None
    assert sys.modules["json"] is before
    assert "this_is_missing" not in sys.modules


def test_the_replaced_modules_are_removed_after_an_error() -> None:
    with pytest.raises(OSError, match="stop"), without({"this_is_missing": ()}):
        raise OSError("stop")
    assert "this_is_missing" not in sys.modules
