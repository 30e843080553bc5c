"""Which variables of a config reach the hub client, which `plan` starts before anybody confirmed anything."""

from __future__ import annotations

import site
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from remote.payload.fix import hub_client
from remote.payload.fix.hub_client import FOLDERS, NO_OTHER_FILES, hub_token

HUB = "https://mirror.test"
OWN = {"HF_TOKEN": "hf_own", "HUGGING_FACE_HUB_TOKEN": "hf_other", "AWS_SECRET_ACCESS_KEY": "secret"}


def sent(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the variables of the config that the client receives, and the answer to a request that the hub refuses.

    The variable `token` stands for the token of the request.
    """
    received: dict[str, str] = {}

    def ask(
        python: str, payload: str, verb: str, request: dict[str, str], environment: Mapping[str, str], _: float
    ) -> object:
        private = Path(environment["HOME"])
        assert private.stat().st_mode & 0o777 == 0o700
        assert list(private.iterdir()) == []
        ours = {"HOME": str(private), "PYTHONUSERBASE": site.getuserbase(), **NO_OTHER_FILES}
        ours.update({"HF_TOKEN_PATH": str(private / "token"), "NETRC": str(private / "netrc")})
        ours.update({name: str(private / name.lower()) for name in FOLDERS})
        assert {name: environment[name] for name in ours} == ours
        received.update({name: value for name, value in environment.items() if name not in ours})
        received.update({"token": request["token"]} if request["token"] else {})
        return {"fault": "gated", "message": "no access"}

    monkeypatch.setattr(hub_client, "ask_python", ask)
    return received, hub_client.ask_hub_client("python3", "payload.pyz", {}, environment, 1.0)


@pytest.mark.parametrize(
    "name",
    [
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "LD_PRELOAD",
        "DYLD_INSERT_LIBRARIES",
        "OPENSSL_CONF",
        "GCONV_PATH",
        "PATH",
        "HOME",
    ],
)
def test_SE_03_variables_that_may_load_code_are_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    received, _ = sent({name: "/project/evil", "HF_HUB_ETAG_TIMEOUT": "9"}, monkeypatch)
    assert received == {"HF_HUB_ETAG_TIMEOUT": "9"}


@pytest.mark.parametrize(
    "name", ["HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "HF_XET_CACHE", "NETRC", "HF_TOKEN_PATH"]
)
@pytest.mark.parametrize("folder", ["/project/b", "$OLDPWD/clone/hf", "$HF_HUB_CACHE", "~/../clone"])
def test_SE_03_the_client_reads_and_writes_no_folder_that_a_config_names(
    name: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link in such a folder made the client overwrite a file of the user, or send one as its token."""
    assert sent({name: folder, "HF_HUB_DISABLE_TELEMETRY": "0"}, monkeypatch)[0] == {}


@pytest.mark.parametrize(
    "environment",
    [
        {"HF_TOKEN_PATH": "~/.ssh/id_ed25519"},
        {"HF_ENDPOINT": f"{HUB}/$DB_PASSWORD"},
        {"http_proxy": "http://${A}.test"},
        {"HF_HUB_USER_AGENT_ORIGIN": "$DB_PASSWORD"},
        {"HF_OIDC_RESOURCE": "x", "HF_OIDC_ID_TOKEN": "$DB_PASSWORD"},
    ],
    ids=["a file as the token", "a variable in the address", "a variable in the proxy", "a header", "a login"],
)
def test_SE_03_no_file_or_variable_of_the_host_is_sent(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sent(environment, monkeypatch)[0] == {}


@pytest.mark.parametrize(
    ("environment", "withheld"),
    [
        pytest.param({"HF_ENDPOINT": HUB}, "HF_ENDPOINT", id="another hub"),
        pytest.param({"https_proxy": HUB, "SSL_CERT_FILE": "/ca.pem"}, "https_proxy", id="a proxy"),
        pytest.param({"HF_ENDPOINT": HUB, "HF_TOKEN": "$HF_TOKEN"}, "HF_ENDPOINT", id="with the token of the host"),
        pytest.param({"HF_ENDPOINT": HUB, "HF_TOKEN": ""}, "HF_ENDPOINT", id="with an empty token"),
        pytest.param({"HF_ENDPOINT": HUB, "HF_TOKEN": " "}, "HF_ENDPOINT", id="with a blank token"),
        pytest.param({"HF_ENDPOINT": HUB, "HF_TOKEN": "a${KEY}"}, "HF_ENDPOINT", id="with a variable in the token"),
        pytest.param({"HF_ENDPOINT": "https://own.test"}, "", id="the hub that the host uses"),
        pytest.param({"HF_HOME": "/cache"}, "", id="the usual hub"),
    ],
)
def test_SE_03_a_token_of_the_host_goes_to_no_server_that_only_a_config_names(
    environment: dict[str, str], withheld: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://own.test")
    monkeypatch.setenv("HF_TOKEN", "hf_own")
    received, answer = sent(environment, monkeypatch)
    assert received.get("token") == (None if withheld else "hf_own")
    assert answer.get("withheld", "") == withheld
    assert (f"because the config sets {withheld}" in answer["message"]) is bool(withheld)


@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
def test_SE_03_of_all_tokens_only_that_of_the_job_goes_to_another_server(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    received, answer = sent({"HF_ENDPOINT": HUB, name: "hf_given"}, monkeypatch)
    assert received == {"HF_ENDPOINT": HUB, "token": "hf_given"}
    assert "withheld" not in answer


@pytest.mark.parametrize(
    ("value", "sent_value"),
    [
        ("hf_given", "hf_given"),
        ("$HF_TOKEN", "hf_own"),
        ("${HUGGING_FACE_HUB_TOKEN}", "hf_other"),
        ("$AWS_SECRET_ACCESS_KEY", None),
        ("${AWS_SECRET_ACCESS_KEY}", None),
        ("$HF_TOKEN$AWS_SECRET_ACCESS_KEY", None),
    ],
)
@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
def test_SE_03_only_variables_for_tokens_of_the_hub_are_expanded_in_a_token(
    name: str, value: str, sent_value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, own in OWN.items():
        monkeypatch.setenv(variable, own)
    expected = sent_value or OWN["HF_TOKEN"]
    if name == "HUGGING_FACE_HUB_TOKEN":
        monkeypatch.delenv("HF_TOKEN")
        expected = (sent_value or OWN[name]) if value != "$HF_TOKEN" else ""
    assert sent({name: value}, monkeypatch)[0].get("token", "") == expected


@pytest.mark.parametrize(
    ("variable", "folder"), [("HF_HOME", "moved"), ("HF_HOME", "$MOVED"), ("XDG_CACHE_HOME", ".")], ids=str
)
@pytest.mark.parametrize(
    ("content", "used"), [("hf_abc\n", True), ("eyJhbGciOi.J9.x\n", False), ("hf_a\nKEY=1\n", False), ("", False)]
)
def test_SE_03_file_named_token_in_another_folder_is_sent_only_if_it_has_a_token_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, folder: str, content: str, used: bool
) -> None:
    own = tmp_path / "own/huggingface"
    own.mkdir(parents=True)
    (own / "token").write_text("own-token\n")
    monkeypatch.setenv("HF_HOME", str(own))
    monkeypatch.setenv("MOVED", "huggingface")
    if variable == "XDG_CACHE_HOME":
        monkeypatch.delenv("HF_HOME")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    place = tmp_path / ("moved" if folder == "moved" else "huggingface")
    place.mkdir()
    (place / "token").write_text(content)
    moved = {variable: f"{tmp_path}/{folder}"}
    assert sent(moved, monkeypatch)[0] == {"token": "hf_abc" if used else "own-token"}
    assert Path(hub_token(moved)[1]) == (place if used else own) / "token"


@pytest.mark.parametrize("content", ["-----BEGIN KEY-----\nline\n", "two words", "x" * 5000, "\x1b[2J"])
def test_SE_03_a_token_file_of_the_host_is_sent_only_if_it_holds_one_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    (tmp_path / "token").write_text(content)
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    assert hub_token({}) == ("", "")


NETRC_CLIENT = """
import json, netrc, os, sys
found = [path for path in (os.environ.get("NETRC"), os.path.expanduser("~/.netrc")) if path and os.path.isfile(path)]
print(json.dumps({"logins": [netrc.netrc(path).authenticators("git.corp") for path in found]}))
"""


@pytest.mark.parametrize("variable", ["HOME", "NETRC"])
def test_SE_03_no_login_of_the_user_is_found_by_the_client(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older versions of requests and httpx read ~/.netrc whatever NETRC is set to."""
    (tmp_path / ".netrc").write_text("machine git.corp login bob password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    if variable == "NETRC":
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    client = tmp_path / "python"
    client.write_text(f"#!{sys.executable} -I\n{NETRC_CLIENT}")
    client.chmod(0o755)
    answer = hub_client.ask_hub_client(str(client), "payload.pyz", {}, {"HF_ENDPOINT": "http://git.corp"}, 20.0)
    assert answer == {"logins": []}
