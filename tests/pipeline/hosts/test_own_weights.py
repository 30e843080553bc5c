"""The weights that a script saves without PEFT are named, with the command that downloads them."""

from __future__ import annotations

import shlex

import pytest

from pipeline.config.host_model import HostConfig
from pipeline.hosts.own_weights import download_command, find_own_weights
from remote.protocol.layout import ProjectLayout
from tests.lab.fake_host import FakeHost

LAYOUT = ProjectLayout("p-1")
RUN = LAYOUT.run("plain-1").root


def host_with(*paths: str, sent: tuple[str, ...] = ()) -> FakeHost:
    host = FakeHost()
    for path in paths:
        host.write_bytes(f"{RUN}/{path}", b"weights")
    for path in sent:
        host.write_bytes(f"{LAYOUT.tree}/{path}", b"weights")
    return host


@pytest.mark.parametrize(
    ("paths", "places"),
    [
        (["code/checkpoints/last.pt", "code/checkpoints/notes.txt"], ["code/checkpoints/last.pt"]),
        (["code/out/model.safetensors", "code/out/config.json"], ["code/out"]),
        (["code/out/a-1.safetensors", "code/out/a-2.safetensors"], ["code/out"]),
        (["code/a.pt", "code/b.pt"], ["code/a.pt", "code/b.pt"]),
        (["code/out/m.pt", "code/out/optimizer.pt"], ["code/out/m.pt"]),
    ],
)
def test_saved_weights_are_found_as_files_or_as_a_saved_model(paths: list[str], places: list[str]) -> None:
    host = host_with(*paths)
    found = find_own_weights(host, HostConfig(host="titan"), "p-1", "plain-1")
    assert found is not None
    expected = [f"{host.workdir}/{RUN}/{place}" for place in places]
    assert shlex.split(found.command) == ["scp", "-r", *(f"titan:{place}" for place in expected), "."]
    assert f"stay on {host.name}: {', '.join(expected)} (" in found.message


def test_weights_that_the_project_contains_were_not_saved_by_the_run() -> None:
    host = host_with("code/base/model.pt", "jobs/1/output.log", sent=("base/model.pt",))
    assert find_own_weights(host, HostConfig(host="titan"), "p-1", "plain-1") is None


def test_the_command_has_the_connection_settings_of_the_host() -> None:
    config = HostConfig(host="10.0.0.7", port=2222, user="me", identity_file="/k/id", proxy_jump=("gate", "b"))
    command = "scp -r -P 2222 -i /k/id -J gate,b me@10.0.0.7:/w/a ."
    assert download_command(config, ["/w/a"]) == command
    assert download_command(HostConfig(host="local"), ["/w/a b"]) == "cp -r '/w/a b' ."
    assert download_command(HostConfig(host="fe80::1"), ["/w/a"]) == "scp -r '[fe80::1]:/w/a' ."
