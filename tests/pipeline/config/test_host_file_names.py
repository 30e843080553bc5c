"""SE: a file of the project is used only if its name is a host name, and never for several hosts that were typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.hosts import load_host
from remote.errors import BadUsage
from remote.protocol.exits import ExitCode
from tests.pipeline.config.config_files import write

NAMES = ["gpu1,gpu2", "gpu1 ,gpu2", " gpu1", "gpu1 ", "gpu1\t", "-gpu1", "gpu1;", "gp\u200bu1"]


@pytest.mark.parametrize("name", NAMES)
def test_SE_a_host_file_whose_name_is_no_host_name_is_refused(tmp_path: Path, name: str) -> None:
    file = write(tmp_path, "host: evil.example\n", f"hosts/{name}")
    for argument in (name, str(file)):
        with pytest.raises(BadUsage, match="the name of a host file must be a host name"):
            load_host(argument, tmp_path)


@pytest.mark.parametrize("name", ["gpu_1", "gpu.lab.example", "10.0.0.7", "fe80::1", "GPU-1"])
def test_a_host_file_may_have_the_name_of_every_machine(tmp_path: Path, name: str) -> None:
    file = write(tmp_path, "host: rig.example\n", f"hosts/{name}")
    for argument in (name, str(file)):
        assert load_host(argument, tmp_path).config.host == "rig.example"


def verbs(host: str) -> list[list[str]]:
    chosen = ["--host", host, "--config", "plain"]
    return [
        ["hosts", "check", host],
        ["plan", *chosen],
        ["fix", *chosen],
        ["verify", *chosen],
        ["evaluate", "--adapter", "ad", *chosen],
    ]


@pytest.mark.parametrize("verb", range(5))
@pytest.mark.parametrize("names", ["gpu1,gpu2", "gpu1 ,gpu2", "gpu1, gpu2"])
def test_SE_a_verb_for_one_host_takes_no_file_for_several_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], names: str, verb: int
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "command: [python, train.py]\ngpus: []\n", "plain")
    for has_file in (False, True):
        if has_file:
            write(tmp_path, "host: 192.0.2.1\n", f"hosts/{names}")
        assert run([*verbs(names)[verb], "--json"]) == ExitCode.USAGE
        output = "".join(capsys.readouterr())
        assert "names several hosts" in output or (has_file and "must be a host name" in output)
