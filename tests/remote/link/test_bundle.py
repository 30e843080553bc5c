"""The payload's zip: the same sources give the same bytes, from the cache or not."""

from __future__ import annotations

import io
import marshal
import os
import subprocess
import sys
import zipfile
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

import pytest

from remote.link import bundle
from remote.payload.agent.compiled import compile_payload
from remote.project.user_folder import create_private
from remote.protocol.byte_code import compile_module

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def fresh() -> bundle.Bundle:
    bundle.payload_bundle.cache_clear()
    return bundle.payload_bundle()


def test_the_bytes_are_the_same_with_and_without_the_cache() -> None:
    made, kept = fresh(), fresh()
    assert made == kept
    assert made.data == bundle.zip_sources(list(bundle._sources()))
    assert len(list(bundle.cache_folder().iterdir())) == 1


def test_a_damaged_cache_is_not_used() -> None:
    made = fresh()
    (kept,) = bundle.cache_folder().iterdir()
    data = bytearray(kept.read_bytes())
    data[1000] ^= 1
    kept.write_bytes(bytes(data))
    assert fresh() == made
    kept.write_bytes(b"")
    assert fresh() == made


def plant(path: Path, made: bundle.Bundle) -> None:
    """Replace a cached zip by one that another user made for it."""
    path.write_bytes(made.data + b"#" + bundle._mark(made.data + b"#"))


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
@pytest.mark.parametrize("above", [0, 1, 2])
def test_SE_a_cache_in_a_folder_that_others_may_write_to_is_not_used(above: int, mode: int) -> None:
    made = fresh()
    (kept,) = bundle.cache_folder().iterdir()
    plant(kept, made)
    kept.parents[above].chmod(mode)
    assert fresh() == made


@pytest.mark.parametrize("form", ["for the group", "for all", "hard link", "link", "linked folder", "of another user"])
def test_SE_a_cached_file_that_others_may_have_written_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    made = fresh()
    (kept,) = bundle.cache_folder().iterdir()
    plant(kept, made)
    if form == "for the group":
        kept.chmod(0o660)
    elif form == "for all":
        kept.chmod(0o602)
    elif form == "hard link":
        (tmp_path / "other").hardlink_to(kept)
    elif form == "link":
        kept.symlink_to(kept.rename(tmp_path / "other"))
    elif form == "linked folder":
        kept.parent.symlink_to(kept.parent.rename(tmp_path / "other"))
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert fresh() == made


def test_a_cache_folder_that_an_older_version_created_for_all_is_used_again(tmp_path: Path) -> None:
    folder = bundle.cache_folder()
    folder.mkdir(parents=True)
    folder.parent.parent.chmod(0o755)
    folder.parent.chmod(0o777)
    made = fresh()
    assert [one.stat().st_mode & 0o777 for one in (folder, folder.parent)] == [0o700, 0o700]
    (kept,) = folder.iterdir()
    plant(kept, made)
    assert fresh() != made


def test_without_a_writable_cache_the_payload_is_built_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert fresh().data


def test_a_changed_source_gives_a_new_bundle_even_if_its_mtime_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "remote"
    (package / "payload").mkdir(parents=True)
    (package / "protocol").mkdir()
    source = package / "payload/agent.py"
    source.write_text("x = 1\n")
    monkeypatch.setattr(bundle, "PACKAGE", package)
    first = fresh()
    times = (source.stat().st_atime_ns, source.stat().st_mtime_ns)
    source.write_text("x = 2\n")
    os.utime(source, ns=times)
    assert fresh() != first
    bundle.payload_bundle.cache_clear()


def test_only_a_few_cached_bundles_are_kept() -> None:
    folder = bundle.cache_folder()
    create_private(folder)
    for number in range(20):
        (folder / f"{number}.pyz").write_bytes(b"old")
    fresh()
    assert len(list(folder.iterdir())) == bundle.MAX_CACHED_ZIPS


def test_the_payload_answers_without_site_packages(tmp_path: Path) -> None:
    path = tmp_path / "payload.pyz"
    path.write_bytes(fresh().data)
    done = subprocess.run([sys.executable, "-I", "-S", path, "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown verb 'nothing'" in done.stderr


def main_file(path: Path) -> str:
    """Return the file in the payload from which its main module is imported."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import remote.payload.__main__ as m; print(m.__file__)"
    argv = [sys.executable, "-I", "-S", "-B", "-c", program, path]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("magic", "used"), [(MAGIC_NUMBER, "__main__.pyc"), (b"\0\0\r\n", "__main__.py")], ids=["this", "another"]
)
def test_byte_code_is_used_by_the_python_that_compiled_it_and_others_use_the_sources(
    magic: bytes, used: str, tmp_path: Path
) -> None:
    bundle.payload_bundle.cache_clear()
    made = bundle.payload_bundle(byte_code=True)
    assert bundle.payload_bundle().sha256 != made.sha256
    path = tmp_path / "payload.pyz"
    with zipfile.ZipFile(io.BytesIO(made.data)) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, magic + data[4:] if name.endswith(".pyc") else data)
    assert Path(main_file(path)).name == used


def names_in(code: CodeType) -> set[str]:
    """Return the paths that tracebacks name, of a module and its functions."""
    functions = (one for one in code.co_consts if isinstance(one, CodeType))
    return {code.co_filename}.union(*map(names_in, functions))


@pytest.mark.parametrize(("magic", "value"), [(MAGIC_NUMBER, 1), (b"\0\0\r\n", 2)], ids=["this", "another"])
def test_a_compiled_payload_reuses_the_byte_code_of_this_python_under_the_path_of_its_sources(
    magic: bytes, value: int, tmp_path: Path
) -> None:
    source, payload, compiled = "def f():\n def g(): return {}\n", tmp_path / "payload.pyz", tmp_path / "compiled.zip"
    with zipfile.ZipFile(payload, "w") as archive:
        archive.writestr("a.py", source.format(2))
        archive.writestr("a.pyc", magic + compile_module(source.format(1).encode(), "a.py")[4:])
        archive.writestr("b.py", source.format(2))
    compile_payload(str(payload), str(compiled))
    with zipfile.ZipFile(compiled) as archive:
        codes = {name: marshal.loads(archive.read(name)[16:]) for name in archive.namelist()}
    assert {name: names_in(code) for name, code in codes.items()} == {
        "a.pyc": {f"{payload}/a.py"},
        "b.pyc": {f"{payload}/b.py"},
    }
    expected = {"a.pyc": value, "b.pyc": 2}
    for name, code in codes.items():
        assert code == compile(source.format(expected[name]), "another path", "exec", dont_inherit=True), name


def test_hooks_are_written_with_the_byte_code_of_the_payload(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from remote.payload.proof.injection import write_hooks\n"
        "sys.path[0] = write_hooks(sys.argv[2])\n"
        "import halfstep_hooks.report as m\n"
        "print(m.__cached__, m.RankReport.__init__.__module__, m.write_json.__code__.co_filename)"
    )
    for byte_code in (True, False):
        path, folder = tmp_path / f"{byte_code}.pyz", tmp_path / f"hooks-{byte_code}"
        path.write_bytes(bundle.payload_bundle(byte_code=byte_code).data)
        argv = [sys.executable, "-I", "-S", "-B", "-c", program, path, folder]
        cached, module, source = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
        assert module == "halfstep_hooks.report"
        assert source == str(folder / "halfstep_hooks/report.py")
        assert Path(cached).exists() is byte_code
