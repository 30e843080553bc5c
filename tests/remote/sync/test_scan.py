"""What the laptop would send, and what it refuses by name."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.errors import SyncRefused
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Severity
from remote.sync.scan import Limits, scan_project

ODD = [
    "new\nline.py",
    "it's.py",
    'say "x".py',
    "*.py",
    "-rf",
    " leading.py",
    "{host}.py",
    "n" * 255,
    b"\xff\xfe.py",
    "\u202eyp.exe",
]


def scan(root: Path, **options):
    return scan_project(root, **options)


def checks(found) -> dict[str, str]:
    return {finding.check: finding.message for finding in found.report.findings}


@pytest.mark.parametrize("name", ODD)
def test_BI_48_odd_names_are_scanned_byte_exact(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), name if isinstance(name, bytes) else os.fsencode(name))
    with open(path, "wb") as file:
        file.write(b"x = 1\n")
    found = scan(tmp_path)
    assert [os.fsencode(path) for path in found.manifest.rows] == [os.path.basename(path)]
    assert found.report.ok


@pytest.mark.parametrize(
    ("one", "other"), [("Model.py", "model.py"), ("\u00e9.py", "e\u0301.py"), ("STRASSE.py", "straße.py")]
)
def test_BI_49_two_names_that_are_one_elsewhere_are_both_told(tmp_path, one, other):
    for name in (one, other):
        (tmp_path / name).write_text("")
    (finding,) = scan(tmp_path).report.findings
    assert (finding.check, finding.exit_code, finding.severity) == ("same-name", ExitCode.SYNC, Severity.ERROR)
    assert repr(one) in finding.message and repr(other) in finding.message


def test_BI_50_what_is_no_file_of_the_project_is_named_and_not_opened(tmp_path):
    root = tmp_path / "p"
    root.mkdir()
    os.symlink("loop", root / "loop")
    os.symlink("/etc/passwd", root / "passwd")
    os.symlink("../outside", root / "up")
    os.symlink("nowhere", root / "dangling")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "sock"))
        found = scan(root)
    told = {finding.where: finding for finding in found.report.findings}
    assert set(told) == {"loop", "passwd", "up", "dangling", "pipe", "sock"}
    assert {finding.exit_code for finding in told.values()} == {ExitCode.SYNC}
    assert "circle" in told["loop"].message and "outside" in told["passwd"].message and "outside" in told["up"].message
    assert "does not exist" in told["dangling"].message
    assert "FIFO" in told["pipe"].message and "socket" in told["sock"].message
    assert not found.manifest.rows


def test_BI_50_a_link_out_through_another_link_is_outside(tmp_path):
    root = tmp_path / "p"
    (root / "real").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/x").write_text("x")
    (root / "real/keep.py").write_text("")
    os.symlink("../../secret", root / "real/door")
    os.symlink("real/door/x", root / "through")
    assert {finding.where for finding in scan(root).report.errors} == {"real/door", "through"}


def test_relative_links_inside_the_project_are_links(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("")
    os.symlink("src/a.py", tmp_path / "a.py")
    os.symlink("src", tmp_path / "lib")
    found = scan(tmp_path)
    assert found.report.ok
    assert {path: row.link for path, row in found.manifest.rows.items()} == {
        "src/a.py": "",
        "a.py": "src/a.py",
        "lib": "src",
    }


def test_BI_51_a_file_of_50_gb_is_named_and_not_read(tmp_path):
    with open(tmp_path / "weights.bin", "wb") as file:
        file.truncate(50 * 10**9)
    (tmp_path / "a.py").write_text("")
    began = time.monotonic()
    found = scan(tmp_path)
    assert time.monotonic() - began < 15
    (finding,) = found.report.errors
    assert (finding.check, finding.exit_code) == ("too-large", ExitCode.SYNC)
    assert "weights.bin (47683.7 MiB)" in finding.message and ".pipelineignore" in finding.hint


def test_BI_51_what_is_too_large_hides_nothing_else_that_is_wrong(tmp_path):
    with (tmp_path / "big.bin").open("wb") as file:
        file.truncate(2 * 2**20)
    (tmp_path / ".env").write_text("A=1\n")
    (tmp_path / "outside").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    scan = scan_project(tmp_path, limits=Limits(file_bytes=2**20))
    assert {finding.check for finding in scan.report.findings} == {"too-large", "secret-file", "link", "not-regular"}
    assert scan.manifest.rows == {}


def test_BI_51_too_many_files_names_the_folders_that_hold_most(tmp_path):
    for folder, count in (("images", 40), ("src", 3), ("logs/old", 20)):
        (tmp_path / folder).mkdir(parents=True)
        for number in range(count):
            (tmp_path / folder / f"{number}").write_text("")
    message = checks(scan(tmp_path, limits=Limits(files=50)))["too-large"]
    assert message == "63 files, over 50; most of them in images/ (40 files), logs/old/ (20 files), src/ (3 files)"


def test_BI_51_too_much_in_all_names_the_largest_folders(tmp_path):
    for name in ("a/big", "b/small"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(bytes(900_000 if "big" in name else 300_000))
    message = checks(scan(tmp_path, limits=Limits(total_bytes=2**20)))["too-large"]
    assert message.startswith("1.1 MiB in all, over 1.0 MiB; most of it in a/ (0.9 MiB), b/ (0.3 MiB)")


def test_BI_51_depth_500_is_told_and_ends(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(500):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    (finding,) = scan(tmp_path).report.errors
    assert finding.check == "too-deep" and finding.exit_code == ExitCode.SYNC


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (".env", "KEY=1"),
        (".env.production", "KEY=1"),
        ("keys/id_ed25519", "x"),
        ("cert.pem", "Bag Attributes\n-----BEGIN ENCRYPTED PRIVATE KEY-----\n"),
        ("deploy", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl"),
        ("account.json", '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\nMII"}'),
        ("store.p12", "x"),
        (".ssh/config", "Host x"),
        (".npmrc", "//r/:_authToken=abc"),
        ("credentials", f"[default]\naws_access_key_id = AKIA\naws_secret_access_key = {'k/+9' * 10}\n"),
        ("token", f"hf_{'Aa1' * 11}\n"),
        ("application_default_credentials.json", "{}"),
    ],
)
def test_BI_52_secrets_are_named_and_never_sent(tmp_path, name, data):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(data)
    (tmp_path / "a.py").write_text("")
    for _ in range(2):  # from the files, then from memory
        found = scan(tmp_path)
        (finding,) = found.report.findings
        assert (finding.check, finding.severity, finding.where) == ("secret-file", Severity.WARNING, name)
        assert set(found.manifest.rows) == {"a.py"}
        os.utime(tmp_path / name, (1, 1))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (".env.example", "KEY="),
        ("id_rsa.pub", "ssh-rsa AAAA"),
        ("test_keys.py", 'KEY = """\n-----BEGIN RSA PRIVATE KEY-----\n"""'),
        ("ca.pem", "-----BEGIN CERTIFICATE-----\n"),
        (".npmrc", "registry=x\n_authToken=${TOKEN}"),
        ("tokenizer.json", '{"model": {}}'),
        (
            "store.py",
            f"s3(\n    aws_secret_access_key=os.environ[{'k' * 40!r}],\n)\naws_secret_access_key = {'k' * 40!r}\n",
        ),
        ("credentials", "aws_secret_access_key = ${FROM_THE_ENVIRONMENT}\n"),
        ("notes.txt", f"the old token was hf_{'Aa1' * 11}, revoked\n"),
    ],
)
def test_what_only_looks_like_a_secret_is_sent(tmp_path, name, data):
    (tmp_path / name).write_text(data)
    assert set(scan(tmp_path).manifest.rows) == {name}


def test_BI_52_git_itself_is_not_sent_and_not_told(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/credentials").write_text("secret")
    (tmp_path / ".env").write_text("A=1")
    (tmp_path / ".gitignore").write_text(".env\n")
    found = scan(tmp_path)
    assert set(found.manifest.rows) == {".gitignore"} and not found.report.findings


@pytest.mark.parametrize("which", ["home", "above", "root", "file", "nothing"])
def test_a_home_is_no_project(tmp_path, monkeypatch, which):
    home = tmp_path / "people/me"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "file").write_text("")
    paths = {
        "home": home,
        "above": tmp_path / "people",
        "root": Path("/"),
        "file": tmp_path / "file",
        "nothing": tmp_path / "x",
    }
    with pytest.raises(SyncRefused) as refused:
        scan(paths[which])
    assert refused.value.exit_code == ExitCode.SYNC and refused.value.hint


def test_the_executable_bit_is_the_only_mode_that_counts(tmp_path):
    for name, mode in (("run.sh", 0o700), ("a.py", 0o600), ("b.py", 0o664)):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(mode)
    assert {path: oct(row.mode) for path, row in scan(tmp_path).manifest.rows.items()} == {
        "run.sh": "0o755",
        "a.py": "0o644",
        "b.py": "0o644",
    }


def test_memory_is_only_a_shortcut(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    os.utime(tmp_path / "a.py", (1, 1))
    first = scan(tmp_path).manifest
    for damage in (b"", b"{", b"[]", b'{"version":1,"rows":{"a.py":[1]}}', b'{"version":99,"rows":{}}'):
        (tmp_path / ".halfstep").mkdir(exist_ok=True)
        (tmp_path / ".halfstep/scan.json").write_bytes(damage)
        assert scan(tmp_path).manifest == first


def test_an_edit_of_the_same_size_and_time_is_seen(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    before = scan(tmp_path).manifest.rows["a.py"]
    times = path.stat()
    path.write_text("x = 2\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert scan(tmp_path).manifest.rows["a.py"].here != before.here


def test_a_warm_scan_of_2000_files_is_quick(tmp_path):
    for number in range(2000):
        path = tmp_path / f"pkg{number % 50}/m{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"x = {number}\n" * 500)
        os.utime(path, (1, 1))
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n!keep.log\n/dist\n**/cache/**\n")
    first = scan(tmp_path)
    rows = (tmp_path / ".halfstep/scan.json").read_bytes()
    times = []
    for _ in range(5):
        began = time.process_time()
        again = scan(tmp_path)
        times.append(time.process_time() - began)
    assert again.manifest == first.manifest and len(again.manifest.rows) == 2001
    assert (tmp_path / ".halfstep/scan.json").read_bytes() == rows or min(times) < 0.15
    assert min(times) < 0.15


@given(
    names=st.lists(
        st.binary(min_size=1, max_size=12).filter(lambda b: b not in {b".", b".."} and not {0, 47} & set(b)),
        min_size=1,
        max_size=6,
        unique=True,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_name_a_file_system_takes_is_scanned_or_refused_by_name(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("names")
    for name in names:
        with open(os.path.join(os.fsencode(root), name), "wb") as file:
            file.write(name)
    found = scan(root)
    told = {finding.where for finding in found.report.findings}
    for name in names:
        if name.startswith(b".#") or name in {b".git", b".gitignore"}:
            continue
        path = os.fsdecode(name)
        assert path in found.manifest.rows or name.decode("utf-8", "backslashreplace") in told
    assert all(finding.where.isprintable() or finding.where.encode() for finding in found.report.findings)
