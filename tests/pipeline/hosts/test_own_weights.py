"""The weights that a script saves without PEFT are named, with the command that downloads them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.config.host_model import HostConfig
from pipeline.hosts.own_weights import MOST_LEVELS, download_command, find_own_weights
from pipeline.verbs.pull import no_adapter
from remote.host import Entry
from remote.protocol.layout import ProjectLayout
from tests.lab.fake_host import FakeHost

LAYOUT = ProjectLayout("p-1")
FOLDER = Path("/p/.halfstep/runs/plain-1")
NEW = Path("/p/new")
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
        (
            [
                f"code/out/epoch{epoch}/adapter_{name}"
                for epoch in (1, 2)
                for name in ("config.json", "model.safetensors")
            ],
            ["code/out/epoch1", "code/out/epoch2"],
        ),
    ],
)
def test_saved_weights_are_found_as_files_or_as_a_saved_model(paths: list[str], places: list[str]) -> None:
    host = host_with(*paths)
    found = find_own_weights(host, HostConfig(host="titan"), "p-1", "plain-1", FOLDER)
    assert found is not None
    expected = [f"{host.workdir}/{RUN}/{place}" for place in places]
    copy = ["scp", "-r", *(f"titan:{place}" for place in expected), str(FOLDER / "own-weights")]
    assert shlex.split(found.command) == ["mkdir", str(FOLDER / "own-weights"), "&&", *copy]
    assert f"stay on {host.name}: {', '.join(expected)} (" in found.message


@pytest.mark.parametrize(
    ("paths", "copied"),
    [
        (["code/out/1/m.pt", "code/out/2/m.pt"], ["code/out/1", "code/out/2"]),
        (["code/a/final/m.pt", "code/b/final/m.pt", "code/c.pt"], ["code/a", "code/b", "code/c.pt"]),
        (["code/a/m.pt", "code/a/b/m.pt"], ["code/a"]),
        (["code/m.pt", "m.pt", "code/x/m.pt"], ["code/m.pt", "code/x"]),
    ],
)
def test_files_of_equal_names_are_downloaded_in_their_folders(paths: list[str], copied: list[str]) -> None:
    found = find_own_weights(Listed(paths), HostConfig(host="h"), "p", "r-1", FOLDER)
    assert found is not None
    sources = [word for word in shlex.split(found.command) if word.startswith("h:")]
    assert sources == [f"h:/w/projects/p/runs/r-1/{place}" for place in copied]


def test_weights_that_the_project_contains_were_not_saved_by_the_run() -> None:
    host = host_with("code/base/model.pt", "jobs/1/output.log", sent=("base/model.pt",))
    assert find_own_weights(host, HostConfig(host="titan"), "p-1", "plain-1", FOLDER) is None


@pytest.mark.parametrize(
    ("paths", "places"),
    [
        (["code-before-job-2-adde/base/model.pt", "code/base/model.pt"], []),
        (["code-before-job-2-adde/base/model.pt", "code-before-job-12-00ff/g.pt"], ["code-before-job-12-00ff/g.pt"]),
        (["code-before/base/model.pt"], ["code-before/base/model.pt"]),
    ],
)
def test_files_of_the_project_in_the_code_of_earlier_jobs_were_not_saved_by_the_run(
    paths: list[str], places: list[str]
) -> None:
    found = find_own_weights(host_with(*paths, sent=("base/model.pt",)), HostConfig(host="h"), "p-1", "plain-1", FOLDER)
    words = shlex.split(found.command) if found is not None else []
    assert [word.partition(f"{RUN}/")[2] for word in words if word.startswith("h:")] == places


def test_the_command_has_the_connection_settings_of_the_host() -> None:
    config = HostConfig(host="10.0.0.7", port=2222, user="me", identity_file="/k/id", proxy_jump=("gate", "b"))
    command = "scp -r -P 2222 -i /k/id -J gate,b me@10.0.0.7:/w/a /p/new"
    assert download_command(config, ["/w/a"], NEW) == f"mkdir /p/new && {command}"
    copy = download_command(HostConfig(host="local"), ["/w/a b"], Path("/p/a b"))
    assert copy == "mkdir '/p/a b' && cp -r '/w/a b' '/p/a b'"
    command = download_command(HostConfig(host="fe80::1"), ["/w/a"], NEW)
    assert command == "mkdir /p/new && scp -r '[fe80::1]:/w/a' /p/new"


@pytest.mark.parametrize(
    "pins", [{"known_hosts": "kh"}, {"known_hosts": "/my keys/known", "host_key": f"SHA256:{'A' * 43}"}]
)
def test_SE_05_the_command_accepts_no_host_keys_of_a_host_file(pins: dict[str, str]) -> None:
    """-o UserKnownHostsFile would replace the user's own known_hosts, which may contain another key of the host."""
    config = HostConfig(host="titan", **pins)
    assert download_command(config, ["/w/a"], NEW) == "mkdir /p/new && scp -r titan:/w/a /p/new"


def test_SE_05_the_printed_command_leaves_the_users_known_hosts_in_effect() -> None:
    config = HostConfig(
        host="10.0.0.7", port=2222, identity_file="/k/id", known_hosts="/clone/kh", proxy_jump=("gate",)
    )
    found = find_own_weights(Listed(["src/a.pt", "src/b.pt"]), config, "p", "r-1", FOLDER)
    assert found is not None and found.command
    options = [word for word in shlex.split(found.command) if word.startswith("-")]
    assert options == ["-r", "-P", "-i", "-J"] and "kh" not in found.command


@pytest.mark.parametrize(
    "paths",
    [
        ["model/final/../a.safetensors", "model/final/../b.safetensors"],
        ["out/.git/a.pt", "out/.git/b.pt"],
        ["../../../../home/me/a.pt"],
        ["-o/a.pt", "-o/b.pt"],
        ["~/a.pt"],
        ["code/a b.pt"],
        ["code/$(id).pt"],
        ["code/a;id.pt"],
        ["code/a\nnext: id.pt"],
        ["code//a.pt"],
        ["code/*.pt"],
        ["code/C:\\a.pt"],
    ],
)
def test_SE_09_no_command_downloads_weights_with_an_unusual_name(paths: list[str]) -> None:
    found = find_own_weights(Listed(paths), HostConfig(host="titan"), "p-1", "plain-1", FOLDER)
    assert found is not None and found.command == ""
    assert "\n" not in found.message and no_adapter("plain-1", found).hint == "pipeline logs plain-1"


def test_SE_09_weights_with_plain_names_are_downloaded_beside_unusual_ones() -> None:
    found = find_own_weights(Listed(["src/a.pt", "src/b.pt", ".git/a.pt"]), HostConfig(host="h"), "p", "r-1", FOLDER)
    assert found is not None
    assert [word for word in shlex.split(found.command) if word.startswith("h:")] == ["h:/w/projects/p/runs/r-1/src"]
    assert shlex.split(found.command)[-1] == str(FOLDER / "own-weights")


@pytest.mark.parametrize("workdir", ["/w/..", "/w/$(id)", "/w\n/x", "~/x", "/w/a b"])
def test_SE_09_no_command_contains_an_unusual_workdir(workdir: str) -> None:
    host = Listed(["a.pt"], workdir)
    found = find_own_weights(host, HostConfig(host="titan"), "p-1", "plain-1", FOLDER)
    assert found is not None and found.command == ""


class Listed(FakeHost):
    """A host that reports these files for every run."""

    def __init__(self, paths: Sequence[str], workdir: str = "/w") -> None:
        super().__init__(workdir=workdir)
        self._paths = paths

    def list_files(self, path: str) -> tuple[Entry, ...]:
        return tuple(Entry(name, "f", 10, 0o600) for name in self._paths if "/runs/" in path)


@pytest.mark.parametrize("planted", ["a link", "a folder with a link", "a broken link"])
def test_SE_12_weights_are_never_copied_into_a_folder_that_exists(tmp_path: Path, planted: str) -> None:
    folder, target = tmp_path / "own-weights", tmp_path / "target"
    target.mkdir()
    if planted == "a folder with a link":
        folder.mkdir()
        (folder / "src").symlink_to(target)
    else:
        folder.symlink_to(target if planted == "a link" else tmp_path / "nowhere")
    command = download_command(HostConfig(host="local"), ["/w/src"], folder)
    assert shlex.split(command)[:2] == ["mkdir", str(tmp_path / "own-weights-2")]
    assert shlex.split(command)[-1] == str(tmp_path / "own-weights-2")


@pytest.mark.parametrize("count", [2, 200])
def test_SE_weights_in_very_deep_folders_are_named_but_not_downloaded(count: int) -> None:
    deep = [f"code/{number}/{'a/' * 900}m.pt" for number in range(count)]
    began = time.process_time()
    found = find_own_weights(host_with(*deep), HostConfig(host="titan"), "p-1", "plain-1", FOLDER)
    assert time.process_time() - began < 5
    assert found is not None and "code/0/a/a" in found.message and found.command == ""


def test_weights_in_folders_up_to_the_limit_are_downloaded_beside_deeper_ones() -> None:
    paths = [f"code/{'a/' * (MOST_LEVELS - 1)}m.pt", f"code/{'b/' * MOST_LEVELS}n.pt"]
    found = find_own_weights(host_with(*paths), HostConfig(host="titan"), "p-1", "plain-1", FOLDER)
    assert found is not None and "/m.pt" in found.command and "n.pt" not in found.command
