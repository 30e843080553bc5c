"""Secrets stay on the laptop and are told; what only looks like one is sent."""

from __future__ import annotations

import os

import pytest

from remote.project.scan import scan_project
from remote.protocol.findings import Severity


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
        found = scan_project(tmp_path)
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
    assert set(scan_project(tmp_path).manifest.rows) == {name}


def test_BI_52_git_itself_is_not_sent_and_not_told(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/credentials").write_text("secret")
    (tmp_path / ".env").write_text("A=1")
    (tmp_path / ".gitignore").write_text(".env\n")
    found = scan_project(tmp_path)
    assert set(found.manifest.rows) == {".gitignore"} and not found.report.findings
