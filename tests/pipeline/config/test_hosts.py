"""A host's name: its file, an alias, similar names, and errors in it."""

from __future__ import annotations

import itertools
import os
import posixpath
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.config.document import BadConfig
from pipeline.config.host_model import ContainerConfig
from pipeline.config.hosts import load_host
from pipeline.config.shipped import shipped_configs
from pipeline.hosts.address import address_of
from pipeline.runs.selection import load_selection
from remote.errors import HalfstepError
from remote.link.container import Container
from remote.link.ssh.route import MAX_PROJECT_KNOWN_HOSTS
from tests.pipeline.config.config_files import GOOD, write


def test_a_host_without_a_file_is_an_alias(tmp_path: Path) -> None:
    assert load_host("gpubox", tmp_path).config.host == "gpubox"


def test_an_unknown_host_is_an_error_that_lists_similar_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text("Host gpubox other-*\n  HostName 10.0.0.1\nHost=titan2\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(tmp_path / "ssh"))
    write(tmp_path, "host: a\n", "hosts/titan")
    assert set(load_host("titn", tmp_path).similar_names) == {"titan", "titan2"}
    assert load_host("gpubox", tmp_path).similar_names == load_host("local", tmp_path).similar_names == ()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("host: a\nport: 0\n", "port"),
        (f"host: a\nproxy_jump: [{','.join('bcdefghij')}]\n", "proxy_jump: has more than 8 gateways"),
        ("host: a\nport: 65536\n", "port"),
        ("host: a\nport: 22.5\n", "port"),
        ("user: me\n", "host"),
        ("host: a\ncard: titan-rx\n", "titan-rtx"),
        ("host: a\nscheduler: pbs\n", "scheduler"),
        ("host: a\nslurm: {partition: gpu}\n", "scheduler: slurm"),
        ("host: a\nscheduler: slurm\nslurm: {partitions: gpu}\n", "partition"),
        ("host: a\nscheduler: slurm\nslurm: {mem: 48 G}\n", "mem"),
        ("host: a\nscheduler: slurm\nslurm: {cpus: 0}\n", "cpus"),
        ("host: a\nscheduler: slurm\nslurm: {extra: [exclusive]}\n", "--name"),
        ("host: a\nscheduler: slurm\nslurm: {extra: ['--output=x']}\n", "set by halfstep"),
        ("host: a\nscheduler: slurm\nslurm: {extra: ['--outp=x']}\n", "set by halfstep"),
        ("host: a\nscheduler: slurm\nslurm: {extra: ['--wrap=id']}\n", "set by halfstep"),
        ("host: a\nscheduler: slurm\nslurm: {extra: ['--nodes=2']}\n", "set by halfstep"),
        ("host: a\nscheduler: slurm\nslurm: {extra: ['-a1-3']}\n", "set by halfstep"),
        ("host: a\ncontainer: -v/:/\n", "must be the name of an image"),
        ("host: a\ncontainer: {imag: torch}\n", "did you mean image?"),
        ("host: a\ncontainer: {image: torch, engine: lxc}\n", "container.engine"),
        ("host: a\ncontainer: {image: torch, volumes: [data]}\n", "must be PATH, SOURCE:TARGET"),
        ("host: a\ncontainer: {image: torch, volumes: ['/a:/b,/c']}\n", "must be PATH, SOURCE:TARGET"),
        ("host: a\ncontainer: {image: torch, volumes: [/data/..]}\n", "must be a folder below /"),
        ("host: a\ncontainer: {image: torch, shm_size: 8 GB}\n", "shm_size"),
        ("host: a\ncontainer: {image: torch, user: root}\n", "must be a user id"),
        ("host: a\nscheduler: slurm\ncontainer: torch\n", "cannot be combined with `scheduler`"),
        ("host: a\nenv: {HF_TOKEN: hf_abc}\n", "secrets: [HF_TOKEN]"),
        ("host: a\nproxy_jump: gate\n", "proxy_jump: [gate]"),
    ],
)
def test_a_bad_host_file_is_an_error(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "h.yaml"
    path.write_text(text)
    with pytest.raises(HalfstepError) as caught:
        load_host(str(path), tmp_path)
    assert any(word in f"{f.message}{f.hint}" for f in caught.value.findings), caught.value.findings


@pytest.mark.parametrize(
    ("container", "options", "expected"),
    [
        ("lab/torch:2.8", [], Container("lab/torch:2.8")),
        ("lab/torch@sha256:d1", [], Container("lab/torch@sha256:d1")),
        ("torch", ["host.container=~/images/torch.sif"], Container("~/images/torch.sif")),
        ("{image: torch}", ["host.container.engine=podman"], Container("torch", "podman")),
        (
            "{image: torch, shm_size: 8g, volumes: [/data, '~/a:/b:ro', '/c:ro'], gpus: none, user: 0}",
            [],
            Container("torch", None, "8g", ("/data", "~/a:/b:ro", "/c:ro"), "none", "0"),
        ),
    ],
)
def test_the_container_key_holds_an_image_or_a_mapping_of_settings(
    tmp_path: Path, container: str, options: list[str], expected: Container
) -> None:
    path = tmp_path / "h.yaml"
    path.write_text(f"host: local\ncontainer: {container}\n")
    address = address_of(load_host(str(path), tmp_path, options))
    assert address.container == expected
    assert address.python == "", "this machine's interpreter may not exist in the container"


WHOLE_MACHINE = (
    *("/", "//", "///", "/.", "/./", "/..", "/../", "/../..", "/data/..", "/data/../..", "//..", "~/..", "~/./.."),
    *("/proc", "//proc/", "/proc/1/root", "/proc/self/cwd/root"),
)


@pytest.mark.parametrize("path", WHOLE_MACHINE)
def test_a_volume_is_never_the_whole_machine_in_any_spelling(path: str) -> None:
    for form in ("{}", "{}:ro", "{}:/mnt", "{}:/mnt:ro", "/data:{}", "/data:{}:ro"):
        with pytest.raises(ValidationError, match=r"must be (a folder below /|PATH)"):
            ContainerConfig(image="torch", volumes=(form.format(path),))


@pytest.mark.parametrize("depth", range(1, 4))
def test_a_volume_that_is_accepted_names_a_folder_below_the_root(depth: int) -> None:
    """Try every path of up to three parts, with one or two slashes between them."""
    for parts in itertools.product(("data", ".", "..", "...", ".data", "", "data."), repeat=depth):
        path = "/" + "/".join(parts)
        try:
            volume = ContainerConfig(image="torch", volumes=(path,)).volumes[0]
        except ValidationError:
            assert {".", ".."}.intersection(parts) or not "".join(parts), path
        else:
            assert posixpath.normpath(volume).strip("/") == "/".join(filter(None, parts)) != ""


def test_problems_of_config_and_host_are_reported_together(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "lorra: {}\n")
    write(tmp_path, "host: a\nprt: 22\n", "hosts/bad")
    with pytest.raises(HalfstepError) as caught:
        load_selection("bad", "mine", [], tmp_path)
    assert [Path(found.where).name for found in caught.value.findings] == ["mine.yaml:4", "bad.yaml:2"]


def test_a_host_file_beside_the_config_is_found_from_any_folder(tmp_path: Path) -> None:
    config = write(tmp_path / "project", GOOD)
    write(tmp_path / "project", "host: there.example\n", "hosts/rig")
    (tmp_path / "elsewhere").mkdir()
    assert load_selection("rig", str(config), [], tmp_path / "elsewhere").host.config.host == "there.example"


def test_the_projects_own_host_file_takes_precedence_over_the_one_beside_a_shipped_config(tmp_path: Path) -> None:
    write(tmp_path, "host: mine.example\n", "hosts/titan")
    named = load_selection("titan", "tiny", [], tmp_path)
    assert (named.loaded.path.parent, named.host.config.host) == (shipped_configs(), "mine.example")


@pytest.mark.parametrize("alias", ["Host cloud titan\n", "Host clo* tita?\n"], ids=["names", "patterns"])
def test_the_users_alias_wins_over_the_file_that_comes_with_halfstep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alias: str
) -> None:
    (tmp_path / "ssh").write_text(alias + "  HostName 10.0.0.1\n")
    shipped = {name: load_host(name, tmp_path).config for name in ("cloud", "titan")}
    assert (shipped["cloud"].port, shipped["titan"].card) == (2222, "titan-rtx")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(tmp_path / "ssh"))
    for name in shipped:
        host = load_host(name, tmp_path)
        assert (host.path, host.config.port, host.config.card, host.config.user) == (None, None, None, None)
        assert host.note == ""


def test_the_projects_own_file_wins_over_the_alias_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text("Host titan rig\n  HostName 10.0.0.1\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(tmp_path / "ssh"))
    file = write(tmp_path, "host: other.example\n", "hosts/titan")
    write(tmp_path, "host: rig\ncard: 7.5\n", "hosts/rig")
    assert load_host("titan", tmp_path).note == f"titan is {file}, not the alias of the same name in ~/.ssh/config"
    assert (load_host("rig", tmp_path).note, load_host("rig", tmp_path).config.card) == ("", 7.5)
    assert load_host("local", tmp_path).note == ""


@pytest.mark.parametrize("kind", ["fifo", "folder", "too large"])
def test_SE_keys_that_cannot_be_read_are_a_problem_of_the_host_file(tmp_path: Path, kind: str) -> None:
    """The login does not read the file again: its content could be another one by then."""
    path = tmp_path / "keys"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"#" * (MAX_PROJECT_KNOWN_HOSTS + 1))
    write(tmp_path, f"host: 192.0.2.1\nknown_hosts: {path}\n", "hosts/box")
    with pytest.raises(BadConfig) as caught:
        load_host("box", tmp_path)
    assert [finding.where.endswith("box.yaml:2") for finding in caught.value.findings] == [True]
    assert "cannot be read: " in caught.value.findings[0].message
