"""Secrets stay on the laptop and are reported; files that only look like secrets are sent."""

from __future__ import annotations

import os
import time

import pytest

from remote.project.scan import scan_project
from remote.project.secrets import secret_by_content
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


def test_BI_52_the_git_folder_is_neither_sent_nor_reported(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/credentials").write_text("secret")
    (tmp_path / ".env").write_text("A=1")
    (tmp_path / ".gitignore").write_text(".env\n")
    found = scan_project(tmp_path)
    assert set(found.manifest.rows) == {".gitignore"} and not found.report.findings


BODY = "".join(f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDb5nKs{n:08d}\n" for n in range(4))
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}-----END RSA PRIVATE KEY-----\n"
AWS = "wJalrXUtnFEMIk7MDENGbPxRfiCYzzKEYq0aB1c2"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("notes.txt", "titan\n  user: me\n  password: hunter2\n"),
        ("NOTES.md", "- login me, Password: `x`\n- **password**: Tr0ub4dor&3\n"),
        ("readme", "the wifi passphrase = correcthorse\npassphrase: correcthorsebattery\n"),
        ("settings.yaml", "db:\n  user: me\n  passwd: 'k7!mQ2zP'\n"),
        ("settings.json", '{"user": "me", "password": "k7!mQ2zP"}'),
        ("settings.ini", "[mail]\r\npwd=swordf1sh\r\n"),
        ("vars", "WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567\n"),
        ("vars.txt", f"HF_TOKEN={'hf_' + 'Aa1' * 11}\n"),
        ("oauth.json", '{"installed": {"client_secret": "GOCSPX-a1B2c3D4e5F6g7H8"}}'),
        ("log.txt", "x" * 2000 + "\n" + KEY),
        ("cell.ipynb", '{"source": ["key = \\"\\"\\"' + KEY.replace("\n", "\\n") + '"]}'),
        ("deploy.py", f'KEY = """{KEY}"""\n'),
        ("values.yaml", "tls:\n  key: |\n" + "".join(f"    {line}\n" for line in KEY.splitlines())),
        ("aws.sh", f'export AWS_SECRET_ACCESS_KEY="{AWS}"\n'),
        ("cloud.json", f'{{"aws_secret_access_key": "{AWS}"}}'),
        ("kube.yml", f"users:\n- user:\n    client-key-data: {'LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBL' * 4}\n"),
    ],
)
def test_SE_04_a_secret_is_found_by_what_a_file_holds(tmp_path, name, data):
    (tmp_path / name).write_text(data)
    (tmp_path / "a.py").write_text("")
    found = scan_project(tmp_path)
    assert set(found.manifest.rows) == {"a.py"}, "sent"
    [finding] = found.report.findings
    assert (finding.check, finding.where) == ("secret-file", name)
    assert all(word not in finding.message for word in ("hunter2", "k7!mQ2zP", "swordf1sh", AWS))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", "my password is swordfish, and hers was hunter2\nhe asked: what is the password?\n"),
        ("b.txt", "Password: the word that you say at the door.\nPASSWORD: Nevermore!\nSecret: absolutely\n"),
        ("c.lab", "speaker one  password colon hunter two\n"),
        ("vocab.json", '{\n  "password": 43821234,\n  "\u0120password": 18,\n  "secret": 999999,\n  "token": 7\n}'),
        ("vocab.txt", "password\n##password\npasswords\nsecret\ntoken\n"),
        ("merges.txt", "pass word\npassw ord\nto ken\n"),
        ("tokenizer_config.json", '{"pad_token": "<|endoftext|>", "eos_token": "abcdefghijk", "token": null}'),
        ("metadata.jsonl", '{"text": "then type password: hunter2 and press enter"}\n' * 3),
        ("samples.csv", "file,text\n1.wav,password: hunter2\n"),
        ("hashes.txt", "password.wav: d41d8cd98f00b204e9800998ecf8427e\npassword: 5f4dcc3b5aa765d61d8327deb882cf99\n"),
        ("shadow.yaml", "password: $6$rounds=4096$salt$hashedvalue123\n"),
        ("audio.json", '{"audio": "' + "UklGRiQAAABXQVZFZm10IBAAAAABAAEA" * 100 + '"}'),
        ("settings.yaml", "password: changeme\nother: {password: ${PASSWORD}}\npwd: $DB_PASS\npasswd: <yours here>\n"),
        ("compose.yaml", "environment:\n  POSTGRES_PASSWORD: {{ vault_pw1 }}\n  password: !vault |\n    1234\n"),
        ("test_login.yaml", "password: test1234\npassword: dummy-123\napi_key: your-api-key-goes-here-1\n"),
        ("a.toml", 'password = ""\nsecret = "***"\npassword_file = "/run/secrets/pw1"\n'),
        ("schema.json", '{"password": {"type": "string"}, "api_key": "string", "password_hint": "none"}'),
        ("client.py", 'connect(password=os.environ["PW1"], token=args.token1)\nif password == "hunter2": pass\n'),
        ("doc.md", "`password=os.environ['PW1']` or `password: env.PASSW0RD`\nsee https://h/x?password=example1\n"),
        ("aws.md", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY (documentation)\n"),
        (
            "keys.md",
            "A key:\n-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n" + "a word and another " * 20,
        ),
        ("dummy_key.py", '"-----BEGIN RSA PRIVATE KEY-----\\n' + "A" * 64 + '"\n'),
        ("huggingface/tokenizer.json", '{"model": {}}'),
        ("long.txt", "Password: hunter22\n" + "a line of a transcript\n" * 4000),
    ],
)
def test_SE_04_text_that_only_mentions_secrets_is_sent(tmp_path, name, data):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(data)
    found = scan_project(tmp_path)
    assert set(found.manifest.rows) == {name}, found.report.findings


def test_SE_04_binary_data_of_any_bytes_is_no_secret(tmp_path):
    noise = bytes(range(256)) * 4
    (tmp_path / "a.wav").write_bytes(b"RIFF" + noise + b"\npassword: hunter2\n" + noise)
    assert set(scan_project(tmp_path).manifest.rows) == {"a.wav"}


def test_SE_04_a_large_text_is_searched_up_to_the_documented_limit(tmp_path):
    line = b'{"text": "the secret of the password token is: nothing at all, she said, 0123456789"}\n'
    (tmp_path / "corpus.txt").write_bytes(line * (20 * 2**20 // len(line)) + KEY.encode())
    (tmp_path / "start.txt").write_bytes(line * 1000 + KEY.encode() + line * 100_000)
    assert set(scan_project(tmp_path).manifest.rows) == {"corpus.txt"}


@pytest.mark.parametrize("before", ["-", ">", " .", "pwd "])
@pytest.mark.parametrize("value", ["$aaaaa", "abcdefghi"])
def test_SE_a_line_of_many_values_is_searched_in_linear_time(before, value):
    text = f"{before * (3000 // len(before))}!{f'pwd={value} ' * 200}\n".encode()
    began = time.process_time()
    assert secret_by_content("notes.txt", text, len(text)) == ""
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("line", "is_secret"),
    [
        ("password: correcthorse", True),
        (" > -- * db.password: correcthorse\t;", True),
        (f"{' ' * 400}my-db_password: correcthorse", True),
        ("the password: correcthorse", False),
        ("my- password: correcthorse", False),
        ("password: correcthorse is it", False),
        ("pwd: correcthorse pwd: correcthorse", False),
    ],
)
def test_SE_04_a_word_is_a_password_only_if_it_fills_the_line(line, is_secret):
    text = f"Notes\n{line}\nmore\n".encode()
    assert bool(secret_by_content("notes.txt", text, len(text))) == is_secret


@pytest.mark.parametrize("text", ["pwd=" + "*" * 60, "pwd=" + "=" * 260, "pwd=" + " " * 30 + "*" * 30])
def test_SE_each_value_is_matched_in_one_way_only(text):
    data = [(f"{number}\n{text * 20_000}")[:65_500].encode() for number in range(10)]
    began = time.process_time()
    assert not any(secret_by_content("notes.txt", each, len(each)) for each in data)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "line", ["**password:** **Tr0ub4dor&3**", "pwd=*** Tr0ub4dor&3", "* `password` = *Tr0ub4dor&3*"]
)
def test_a_value_with_stars_around_it_is_found(line):
    assert "password" in secret_by_content("notes.md", line.encode(), 30).replace("pwd", "password")
