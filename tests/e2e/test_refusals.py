"""Errors before anything runs: exit code, message, place and hint; never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.user import CommandResult, User
from tests.lab.sshd import Sshd, free_port, make_key

pytestmark = pytest.mark.ssh


def refused(result: CommandResult, code: int, *words: str) -> None:
    assert result.code == code, result.out + result.err
    assert "Traceback" not in result.out + result.err
    [finding, *_] = [finding for finding in result.json["findings"] if finding["severity"] == "error"]
    text = " ".join(finding[part] for part in ("message", "where", "hint"))
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"
    assert result.json["exit_code"] == code
    assert result.json["ok"] is False


def runs(user: User, *more: str) -> CommandResult:
    return user.run_pipeline("run", "--host", "titan", "--config", "tiny", "--until", "sync", *more, "--json")


def test_BI_31_an_unknown_host_key_is_not_trusted_without_confirmation(
    user: User, start_sshd: Callable[..., Sshd], tmp_path: Path
) -> None:
    sshd = start_sshd(used_before=False)
    nobody = tmp_path / "nobody_known"
    nobody.write_text("")
    user.write_host_file("titan", sshd, known_hosts=nobody)
    refused(runs(user), 12, "SHA256:", sshd.fingerprint())
    assert "Accepted" not in sshd.log
    assert not (sshd.home / "halfstep").exists()


def test_BI_32_a_changed_host_key_is_always_refused(
    user: User, start_sshd: Callable[..., Sshd], tmp_path: Path
) -> None:
    real = start_sshd("real")
    other = make_key(tmp_path / "other_key")
    known = tmp_path / "known"
    public = Path(f"{other}.pub").read_text().split()
    known.write_text(f"[127.0.0.1]:{real.port} {public[0]} {public[1]}\n")
    user.write_host_file("titan", real, known_hosts=known)
    refused(runs(user, "--yes"), 12, "SHA256:", real.fingerprint())
    assert "Accepted" not in real.log


def test_BI_30_a_key_the_server_does_not_know_is_named(user: User, sshd: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "stranger")
    user.write_host_file("titan", sshd, identity_file=other)
    refused(runs(user), 11, "stranger")


def test_BI_26_a_closed_port_is_reported(user: User, sshd: Sshd) -> None:
    user.write_host_file("titan", sshd, port=free_port())
    result = runs(user)
    refused(result, 10, "refused")
    assert (result.json["host"], result.json["config"]) == ("titan", "tiny")


def test_an_unknown_key_in_a_config_names_the_nearest(user: User) -> None:
    (user.project / "configs").mkdir()
    (user.project / "configs" / "tiny.yaml").write_text("project: .\ntrain: {lerning_rate: 1}\n")
    refused(runs(user), 2, "learning_rate", "tiny.yaml:2")


def test_malformed_yaml_is_reported_with_its_line(user: User) -> None:
    (user.project / "configs").mkdir()
    (user.project / "configs" / "tiny.yaml").write_text("project: .\ntrain: [1, 2\nx: 3\n")
    refused(runs(user), 2, "tiny.yaml:3")


def test_a_missing_config_is_reported(user: User) -> None:
    result = user.run_pipeline("run", "--host", "local", "--config", "tinny", "--json")
    refused(result, 2, "tinny", "tiny")


@pytest.mark.root
def test_FI_17_a_full_disk_on_the_host_is_reported_and_nothing_is_lost(
    user: User, sshd: Sshd, small_disk: Path
) -> None:
    (user.project / "big.bin").write_bytes(bytes(range(256)) * 4096 * 12)
    user.write_host_file("titan", sshd, workdir=small_disk / "work")
    refused(runs(user), 22, "space")
    assert not list(small_disk.rglob("big.bin")), "half a file lies under its final name"


def test_an_unknown_verb_or_option_is_reported(user: User) -> None:
    refused(user.run_pipeline("rnu", "--json"), 2, "run")
    refused(user.run_pipeline("run", "--hots", "x", "--json"), 2, "--host")


def test_a_stage_that_does_not_exist_is_reported(user: User) -> None:
    refused(user.run_pipeline("run", "--host", "local", "--config", "tiny", "--until", "trian", "--json"), 2, "train")
