"""Which variables of a config reach the hub client, which `plan` starts before anybody confirmed anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from remote.payload.fix.hub_access import token_source
from remote.payload.probes import project_python

HUB = "https://mirror.test"


def sent(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the variables that the client receives, and the answer to a request that the hub refuses."""
    received: dict[str, str] = {}

    def ask(
        python: str, payload: str, verb: str, request: dict[str, str], environment: Mapping[str, str], _: float
    ) -> object:
        received.update(environment)
        received.update({"the token of the request": request["token"]} if request.get("token") else {})
        return {"fault": "gated", "message": "no access"}

    monkeypatch.setattr(project_python, "ask_python", ask)
    return received, project_python.ask_hub_client("python3", "payload.pyz", {}, environment, 1.0)


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
    received, _ = sent({name: "/project/evil", "HF_HUB_CACHE": "/cache"}, monkeypatch)
    assert received == {"HF_HUB_CACHE": "/cache"}


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
    received, answer = sent(environment, monkeypatch)
    assert ("HF_HUB_DISABLE_IMPLICIT_TOKEN" in received) is bool(withheld)
    assert answer.get("withheld", "") == withheld
    assert (f"because the config sets {withheld}" in answer["message"]) is bool(withheld)


@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
def test_SE_03_of_all_tokens_only_that_of_the_job_goes_to_another_server(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    received, answer = sent({"HF_ENDPOINT": HUB, name: "hf_given"}, monkeypatch)
    assert received["the token of the request"] == "hf_given"
    assert received["HF_HUB_DISABLE_IMPLICIT_TOKEN"] == "1"
    assert not {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} & set(received)
    assert "withheld" not in answer


@pytest.mark.parametrize(
    ("value", "sent_value"),
    [
        ("hf_given", "hf_given"),
        ("$HF_TOKEN", "$HF_TOKEN"),
        ("${HUGGING_FACE_HUB_TOKEN}", "${HUGGING_FACE_HUB_TOKEN}"),
        ("$AWS_SECRET_ACCESS_KEY", None),
        ("${AWS_SECRET_ACCESS_KEY}", None),
        ("$HF_TOKEN$AWS_SECRET_ACCESS_KEY", None),
    ],
)
@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"])
def test_SE_03_only_variables_for_tokens_of_the_hub_are_expanded_in_a_token(
    name: str, value: str, sent_value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert sent({name: value}, monkeypatch)[0] == ({name: sent_value} if sent_value else {})


@pytest.mark.parametrize(
    ("variable", "folder"), [("HF_HOME", "moved"), ("HF_HOME", "$MOVED"), ("XDG_CACHE_HOME", ".")], ids=str
)
@pytest.mark.parametrize(
    ("content", "used"), [("hf_abc\n", True), ("eyJhbGciOi.J9.x\n", False), ("hf_a\nKEY=1\n", False), ("", False)]
)
def test_SE_03_file_named_token_in_another_folder_is_sent_only_if_it_has_a_token_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, folder: str, content: str, used: bool
) -> None:
    monkeypatch.setenv("HF_HOME", "/own")
    monkeypatch.setenv("MOVED", "huggingface")
    if variable == "XDG_CACHE_HOME":
        monkeypatch.delenv("HF_HOME")
        monkeypatch.setenv("XDG_CACHE_HOME", "/own")
    place = tmp_path / ("moved" if folder == "moved" else "huggingface")
    place.mkdir()
    (place / "token").write_text(content)
    received, _ = sent({variable: f"{tmp_path}/{folder}"}, monkeypatch)
    own = "/own/huggingface/token" if variable == "XDG_CACHE_HOME" else "/own/token"
    assert received.get("HF_TOKEN_PATH") == (None if used else own)
    assert bool(token_source({variable: f"{tmp_path}/{folder}"})) is used
