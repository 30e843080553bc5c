"""SE-13: a host file that changes the login to an alias is confirmed before it is used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.config.host_model import HostConfig
from pipeline.config.hosts import load_host
from pipeline.hosts.trust import require_trust
from remote.errors import HostFileUntrusted
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.ssh_home import ALIAS, ssh_home

__all__ = ["ssh_home"]


@dataclass(frozen=True)
class Other:
    """Another value of a setting of a host file. `neutral` settings change what runs on the machine, not the login."""

    text: str
    neutral: bool = False


SETTINGS = {
    "host": Other("10.6.6.6"),
    "port": Other("2222"),
    "user": Other("somebody"),
    "identity_file": Other("~/.ssh/other"),
    "known_hosts": Other("~/.ssh/other_hosts"),
    "host_key": Other("SHA256:" + "a" * 43),
    "proxy_jump": Other("[gate.example]"),
    "container": Other("lab/evil"),
    "secrets": Other("[HF_TOKEN]"),
    **dict.fromkeys(("workdir", "python"), Other("/data/me", neutral=True)),
    "gpus": Other("[0]", neutral=True),
    "address": Other("10.0.0.9", neutral=True),
    "card": Other("7.5", neutral=True),
    "scheduler": Other("slurm", neutral=True),
    "slurm": Other("{partition: gpu}\nscheduler: slurm", neutral=True),
    "env": Other("{A: b}", neutral=True),
}


def test_SE_13_the_table_of_settings_is_complete() -> None:
    assert set(SETTINGS) == set(HostConfig.model_fields)


@pytest.mark.parametrize("key", SETTINGS)
def test_SE_13_every_setting_that_changes_the_login_to_an_alias_is_confirmed(tmp_path: Path, key: str) -> None:
    other = SETTINGS[key]
    write(tmp_path, f"{'' if key == 'host' else 'host: titan'}\n{key}: {other.text}\n", "hosts/titan")
    host = load_host("titan", tmp_path)
    if other.neutral:
        require_trust(host, None)
    else:
        with pytest.raises(HostFileUntrusted):
            require_trust(host, None)


@pytest.mark.parametrize("file", ["host: titan\n", "host: titan\nidentity_file: ~/.ssh/mine\n"])
def test_a_host_file_with_the_key_of_the_alias_needs_no_confirmation(tmp_path: Path, file: str) -> None:
    (tmp_path / "ssh").write_text(f"{ALIAS}  IdentityFile ~/.ssh/mine\n  IdentitiesOnly yes\n")
    write(tmp_path, file, "hosts/titan")
    require_trust(load_host("titan", tmp_path), None)
    write(tmp_path, "host: 10.0.0.1\nuser: me\n", "hosts/titan")
    with pytest.raises(HostFileUntrusted, match=r"logs in to me@10\.0\.0\.1:22 with other keys, not with the keys of"):
        require_trust(load_host("titan", tmp_path), None)
