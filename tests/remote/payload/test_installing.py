"""Events of pip's output, its errors on a full disk, and the disk space that an installation needs."""

from __future__ import annotations

import http.server
import os
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from remote.payload.fix.downloads import Downloads, parse_report, reachable, require_room, sum_downloads
from remote.payload.fix.installing import run_command
from remote.payload.fix.pip_output import PipOutput
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode

GB = 10**9
OUTPUT = """Looking in indexes: https://pypi.org/simple
Collecting torch==2.13.0 (from -r requirements.txt (line 1))
  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (29 kB)
Downloading https://example.org/whl/torch-2.13.0%2Bcu129-cp311-cp311-linux_x86_64.whl (915.1 MB)
Progress 0 of 915100000
Progress 457550000 of 915100000
  Downloading six-1.17.0.tar.gz
  Building wheel for six (pyproject.toml): started
Requirement already satisfied: pip
Installing collected packages: six, torch
Successfully installed six-1.17.0 torch-2.13.0"""


def test_pips_output_says_what_it_is_doing_and_how_far_a_download_is(tmp_path: Path) -> None:
    output = PipOutput(str(tmp_path))
    torch = "downloading torch 2.13.0+cu129 (915.1 MB)"
    assert [event for line in OUTPUT.splitlines() if (event := output.event(line))] == [
        {"doing": "collecting torch==2.13.0"},
        {"doing": torch},
        {"doing": torch, "done": 0, "total": 915100000},
        {"doing": torch, "done": 457550000, "total": 915100000},
        {"doing": "downloading six 1.17.0"},
        {"doing": "building six"},
        {"doing": "installing six (1 of 2)", "done": 0, "total": 2},
    ]


def test_an_installation_is_counted_by_the_packages_that_pip_has_finished(tmp_path: Path) -> None:
    site = tmp_path / "[venv]" / "lib" / "python3.11" / "site-packages"

    def unpack(folder: str, *, finished: bool) -> None:
        (site / folder).mkdir(parents=True, exist_ok=True)
        if finished:
            (site / folder / "INSTALLER").write_text("pip")

    unpack("pip-26.0.dist-info", finished=True)
    output = PipOutput(str(tmp_path / "[venv]"))
    assert output.installation() is None, "no installation has begun"
    output.event("Installing collected packages: six, torch, pip")
    unpack("six-1.17.0.dist-info", finished=True)
    unpack("torch-2.13.0.dist-info", finished=False)
    assert output.installation() == {"doing": "installing torch (2 of 3)", "done": 1, "total": 3}
    unpack("torch-2.13.0.dist-info", finished=True)
    unpack("pip-26.1.dist-info", finished=True)
    assert output.installation() == {"doing": "installing pip (3 of 3)", "done": 3, "total": 3}


SILENT_PIP = """
import pathlib, sys
folder = pathlib.Path(sys.argv[1], "lib", "python3.11", "site-packages", "six-1.17.0.dist-info")
print("Installing collected packages: six, torch", flush=True)
folder.mkdir(parents=True)
(folder / "INSTALLER").write_text("pip")
open(sys.argv[2]).read()
"""


class Laptop:
    """Stands in for a Call: it collects the events, and opens `fifo` when the first package is reported as finished."""

    def __init__(self, fifo: Path) -> None:
        os.mkfifo(fifo)
        self.fifo, self.events = fifo, list[dict[str, Any]]()
        self.connection, self.source = self, self
        self.descriptors = os.pipe()

    def fileno(self) -> int:
        return self.descriptors[0]

    def push(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if event.get("done") == 1:
            self.fifo.write_text("")

    def keep_alive(self, event: dict[str, Any]) -> None:
        pass

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


def test_progress_is_pushed_while_pip_installs_without_a_word(tmp_path: Path) -> None:
    laptop, venv = Laptop(tmp_path / "fifo"), str(tmp_path / "venv")
    argv = [sys.executable, "-c", SILENT_PIP, venv, str(laptop.fifo)]
    run_command(cast(Call, laptop), argv, dict(os.environ), "it failed", pip=PipOutput(venv))
    laptop.close()
    assert laptop.events[-1] == {"doing": "installing torch (2 of 2)", "done": 1, "total": 2}
    assert [event["done"] for event in laptop.events] == sorted({event["done"] for event in laptop.events})


@pytest.mark.parametrize(
    "line", ["", "Progress 5 of 10", "Progress x of y", "Downloading", "\x1b[2K", "Progress 1 of 0"]
)
def test_lines_without_progress_are_no_events(line: str, tmp_path: Path) -> None:
    assert PipOutput(str(tmp_path)).event(line) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ERROR: Could not install packages: [Errno 28] No space left on device: 'x'", "No space left on device"),
        ("EOFError: marshal data too short", "no space left for byte code (marshal data too short)"),
    ],
)
def test_a_command_that_fails_on_a_full_disk_is_a_fault_of_the_disk(tmp_path: Path, line: str, said: str) -> None:
    argv = [sys.executable, "-c", f"print({line!r}); raise SystemExit(1)"]
    laptop = Laptop(tmp_path / "fifo")
    with pytest.raises(Refusal) as refusal:
        run_command(cast(Call, laptop), argv, dict(os.environ), "pip failed")
    laptop.close()
    assert refusal.value.exit_code == ExitCode.DISK and said in refusal.value.message.splitlines()[0]


@pytest.mark.parametrize(
    ("remote", "local", "free", "fits"),
    [
        (3 * GB, 0, 6 * GB, True),
        (3 * GB, 0, 6 * GB - 1, False),
        (0, 3 * GB, 3 * GB, True),
        (0, 3 * GB, 3 * GB - 1, False),
        (0, 0, 0, True),
    ],
)
def test_downloads_need_their_size_twice_and_local_archives_once(
    remote: int, local: int, free: int, fits: bool
) -> None:
    downloads = Downloads(2, "torch 2.13.0", remote, local, 0)
    if fits:
        require_room(downloads, free, "/w/venv")
        return
    with pytest.raises(Refusal, match="the largest") as refusal:
        require_room(downloads, free, "/w/venv")
    assert (refusal.value.exit_code, refusal.value.hint) == (ExitCode.DISK, "df -h /w/venv   (on the host)")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"install": 1}', b'{"install": [1, "x"]}'])
def test_an_invalid_report_has_no_packages(data: bytes) -> None:
    assert parse_report(data) == []
    assert sum_downloads(parse_report(data)).packages == 0


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012 - one server in one test

    def do_HEAD(self) -> None:
        self.asked.append(f"HEAD {self.path}")
        super().do_HEAD()

    def do_GET(self) -> None:
        self.asked.append(f"GET {self.path}")
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


def test_sizes_come_from_the_server_and_the_disk_and_no_file_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-1.whl").write_bytes(b"x" * 700)
    (tmp_path / "b+cpu-1.whl").write_bytes(b"x" * 300)
    (tmp_path / "torch").mkdir()
    monkeypatch.chdir(tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    places = [f"{url}/a-1.whl", f"{url}/gone.whl", f"file://{tmp_path}/b%2Bcpu-1.whl", "git+https://x/y", ""]
    items = [
        {"metadata": {"name": f"p{at}", "version": "1"}, "download_info": {"url": p}} for at, p in enumerate(places)
    ]
    try:
        assert sum_downloads(items) == Downloads(5, "p0 1", 700, 300, 3)
        assert sorted(Quiet.asked) == ["HEAD /a-1.whl", "HEAD /gone.whl"]
        assert reachable(f"{url}/")
        assert not reachable(f"{url}/no-such-index")
    finally:
        server.shutdown()
        server.server_close()
    assert not reachable(url), "nobody listens any more"
