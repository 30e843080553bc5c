"""Files of `torch.save` without a usual ending are recognised by their first bytes and offered as a run's weights."""

from __future__ import annotations

import io
import pickle
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from pipeline.config.host_model import HostConfig
from pipeline.hosts.own_weights import find_own_weights
from pipeline.hosts.torch_files import HEAD, MOST_READ, find_torch_files, is_torch_file
from remote.errors import ConnectionLost, RemoteFault
from remote.host import Entry, Host
from remote.link.local import local_host
from remote.protocol.layout import ProjectLayout
from tests.lab.fake_host import FakeHost
from tests.lab.payload import install_payload

RUN = ProjectLayout("p-1").run("hifi-1").root
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
"""torch.serialization.MAGIC_NUMBER, which the format before torch 1.6 begins with."""
OLD_FORMAT = pickle.dumps(MAGIC_NUMBER, protocol=2) + pickle.dumps(1001, protocol=2) + bytes(100)


def archive(*names: str) -> bytes:
    """Return the same bytes at any time, because they are part of a test's name."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        for name in names:
            opened.writestr(zipfile.ZipInfo(name), bytes(100))
    return file.getvalue()


NEW_FORMAT = archive("g_00000010/data.pkl", "g_00000010/byteorder", "g_00000010/data/0")


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (NEW_FORMAT, True),
        (archive("archive/data.pkl"), True),
        (OLD_FORMAT, True),
        (OLD_FORMAT[:20], True),
        (archive("word/document.xml"), False),
        (archive("data.pkl"), False),
        (archive("notes.txt", "a/data.pkl"), False),
        (pickle.dumps({"a": 1}, protocol=2) + bytes(100), False),
        (NEW_FORMAT[:29], False),
        (b"PK\x03\x04", False),
        (b"", False),
    ],
)
def test_the_first_bytes_show_whether_torch_wrote_a_file(head: bytes, found: bool) -> None:
    assert is_torch_file(head) is found


SAVE = """
import sys, torch
for zipped in (True, False):
    torch.save({"w": torch.zeros(3)}, f"{sys.argv[1]}/{zipped}", _use_new_zipfile_serialization=zipped)
"""


def test_a_file_that_torch_has_written_is_recognised_in_both_formats(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SAVE, str(tmp_path)], check=True)
    heads = [(tmp_path / zipped).read_bytes()[:HEAD] for zipped in ("True", "False")]
    assert list(map(is_torch_file, heads)) == [True, True]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    opened = local_host(str(install_payload(tmp_path / "work")))
    yield opened
    opened.close()


def write(host: Host, path: str, data: bytes) -> None:
    file = Path(host.workdir, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def test_the_checkpoints_of_a_plain_loop_without_endings_are_offered(host: Host) -> None:
    for name, data in (("g_00000010", NEW_FORMAT), ("do_00000010", OLD_FORMAT), ("config", b"{}" * 100)):
        write(host, f"{RUN}/code/cp_hifigan/{name}", data)
    for path in ("code/LICENSE", "code/.git/objects/5f", "jobs/1/output.log"):
        write(host, f"{RUN}/{path}", b"words " * 100)
    found = find_own_weights(host, HostConfig(host="titan"), "p-1", "hifi-1", Path("/p"))
    assert found is not None
    assert f"{host.workdir}/{RUN}/code/cp_hifigan (" in found.message
    copied = shlex.split(found.command)
    assert copied[-2:] == [f"titan:{host.workdir}/{RUN}/code/cp_hifigan", "/p/own-weights"]


@pytest.mark.parametrize(
    ("path", "offered"),
    [
        ("code/last.pth.tar", True),
        ("code/epoch.12", True),
        ("code/optimizer", False),
        ("code/.cache/g_1", False),
        ("code/features.npy", False),
        ("jobs/1/g_1", False),
    ],
)
def test_names_with_which_torch_files_are_looked_for(host: Host, path: str, offered: bool) -> None:
    write(host, f"{RUN}/{path}", NEW_FORMAT)
    found = find_own_weights(host, HostConfig(host="titan"), "p-1", "hifi-1", Path("/p"))
    assert (found is not None and path in found.message) is offered


def test_a_file_of_the_project_was_not_saved_by_the_run(host: Host) -> None:
    write(host, f"{RUN}/code/pretrained", NEW_FORMAT)
    write(host, f"{ProjectLayout('p-1').tree}/pretrained", NEW_FORMAT)
    assert find_own_weights(host, HostConfig(host="titan"), "p-1", "hifi-1", Path("/p")) is None


def test_of_very_many_files_only_the_largest_are_read() -> None:
    asked: list[str] = []
    host = FakeHost(operations={"file.read": lambda args: {"n": asked.append(str(args["path"]))}})
    entries = [Entry(f"code/f{size}", "f", size, 0o600) for size in range(100, 100 + 2 * MOST_READ)]
    entries += [Entry("code/link", "l", 10**6, 0o600), Entry("code/folder", "d", 10**6, 0o700)]
    assert find_torch_files(host, "run", entries) == set()
    assert len(asked) == MOST_READ and asked[0] == f"run/code/f{99 + 2 * MOST_READ}"


@pytest.mark.parametrize(
    ("error", "asked"), [(ConnectionLost("gone"), 1), (RemoteFault("refused", kind="bad"), MOST_READ)]
)
def test_a_host_that_does_not_answer_is_asked_for_one_file_only(error: Exception, asked: int) -> None:
    read: list[str] = []

    class Silent(FakeHost):
        def fetch(self, operation: str, *_: object, **__: object) -> None:
            read.append(operation)
            raise error

    entries = [Entry(f"g_{number}", "f", 1000, 0) for number in range(MOST_READ + 5)]
    assert find_torch_files(cast(Host, Silent()), RUN, entries) == set()
    assert len(read) == asked
