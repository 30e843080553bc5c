"""Queries of a hub by the laptop: the real client in its own process, against a hub on loopback."""

import sys
from pathlib import Path

import pytest

from fixers.setup.laptop_hub import HubUnavailable, ask_laptop_hub, fetch_on_laptop, tree_on_laptop
from remote.protocol.tokenizer_files import LARGEST_BYTES, MAX_VALUES, Digest, digest_of, judge_download, judge_file
from tests.lab.hub import COMMIT, Hub, Repository, serve

REPO = "lab/speech"
DATA = b'{"model_max_length": 4096}\n'
NAME = "tokenizer_config.json"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with serve(Hub({REPO: Repository({NAME: DATA})})) as served:
        for name, value in {**served.environment, "HF_HOME": str(tmp_path / "hf")}.items():
            monkeypatch.setenv(name, value)
        yield served


@pytest.mark.usefixtures("hub")
def test_a_file_is_downloaded_at_the_commit():
    assert fetch_on_laptop(REPO, COMMIT, NAME, digest_of(DATA)) == DATA


@pytest.mark.usefixtures("hub")
def test_SE_03_no_client_of_the_projects_is_run(monkeypatch, tmp_path):
    for package in ("huggingface_hub", "remote"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f".:{tmp_path}")
    assert fetch_on_laptop(REPO, COMMIT, NAME, digest_of(DATA)) == DATA
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("hub")
def test_a_failed_download_is_reported_with_repository_and_reason():
    with pytest.raises(HubUnavailable) as refusal:
        fetch_on_laptop("lab/gone", COMMIT, NAME, digest_of(DATA))
    assert refusal.value.message.startswith("lab/gone: ")
    assert len(refusal.value.message) > len("lab/gone: ")


def client(monkeypatch, tmp_path, program: str) -> None:
    """Replaces the interpreter by a program of the test."""
    script = tmp_path / "client"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def test_the_payload_s_hub_client_reads_the_request_from_stdin(monkeypatch, tmp_path):
    client(monkeypatch, tmp_path, """printf '{"argv": "%s", "at": "%s", "asked": %s}' "$*" "$(pwd)" "$(cat)"; exit 3""")
    assert ask_laptop_hub({"do": "tree"}) == {
        "argv": "-E -m remote.payload hub",
        "at": str(Path(__file__).parents[3]),
        "asked": {"do": "tree"},
    }


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("echo traceback >&2; echo 'ImportError: no hub' >&2; exit 1", "ImportError: no hub"),
        ("printf 'bad \\377 byte' >&2; echo not json", "bad \ufffd byte"),
        ("exit 1", "the hub client ended without output"),
    ],
)
def test_a_client_that_gives_no_answer_is_reported_with_its_last_line(monkeypatch, tmp_path, program, words):
    client(monkeypatch, tmp_path, program)
    with pytest.raises(HubUnavailable) as refusal:
        ask_laptop_hub({"do": "tree"})
    assert (refusal.value.message, refusal.value.hint) == (words, "")


def test_without_huggingface_hub_nothing_is_started(monkeypatch, tmp_path):
    client(monkeypatch, tmp_path, "echo '{}'")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(HubUnavailable) as refusal:
        ask_laptop_hub({"do": "tree"})
    assert refusal.value.hint == "pip install huggingface_hub"
    assert "nothing was downloaded" in refusal.value.message


@pytest.mark.parametrize("size", [LARGEST_BYTES + 1, 2**40, -1])
def test_BI_53_a_file_over_the_limit_is_refused_before_it_is_downloaded(hub, size):
    with pytest.raises(HubUnavailable, match=f"{NAME} has {size} bytes; a file of a tokenizer has at most"):
        fetch_on_laptop(REPO, COMMIT, NAME, Digest(size, digest_of(DATA).sha256))
    assert not hub.requests


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x\n" * 1000, "it is not JSON"),
        (b"[" + b"{}," * 1000 + b"{}]", "expected an object"),
        (b"[" * MAX_VALUES + b"[", f"more than {MAX_VALUES} values"),
    ],
    ids=["no JSON", "no object", "too many values"],
)
def test_BI_53_a_file_with_the_hub_s_digest_is_refused_if_its_content_is_invalid(hub, content, words):
    hub.repositories[REPO].files[NAME] = content
    with pytest.raises(HubUnavailable, match=words):
        fetch_on_laptop(REPO, COMMIT, NAME, digest_of(content))


def test_BI_53_a_file_over_the_limit_of_values_is_not_parsed():
    content = b'{"a": [' + b"0," * MAX_VALUES + b"}"
    assert judge_file(NAME, content) is None
    fault = judge_download(NAME, content)
    assert fault is not None and fault.kind == "not-a-tokenizer"


@pytest.mark.parametrize("size", ["-1", '"12"', "1e400"])
def test_BI_53_a_malformed_list_of_files_is_reported(monkeypatch, tmp_path, size):
    answer = f'{{"commit": "{COMMIT}", "digests": {{"{NAME}": {{"size": {size}}}}}}}'
    client(monkeypatch, tmp_path, f"echo '{answer}'")
    with pytest.raises(HubUnavailable, match=f"{REPO}: the hub sent a malformed answer"):
        tree_on_laptop(REPO, "main")
