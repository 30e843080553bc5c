"""What is wrong with a tokenizer file, and which other file can replace it, as tables."""

import pytest

from fixers.setup.tokenizer_judgement import FaultyFile, good_copy, judge_files
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.tokenizer_files import Fault, TokenizerFile, judge_file

PATH = "/t/model/tokenizer.json"
UPGRADE = 'pip install -U "tokenizers>=0.20" "transformers>=4.45"'


def file_of(path=PATH, real="", **known):
    return TokenizerFile(path, real or path, 10, "aa", **known)


def broken(reason, path=PATH):
    message = f"{path.rpartition('/')[2]} is broken: {reason}"
    return Finding("tokenizer", Severity.ERROR, message, path, exit_code=ExitCode.FIXER)


def too_new(installed):
    message = f"tokenizer.json is too new for the installed library: tokenizers {installed} cannot read paired merges"
    return Finding("tokenizer", Severity.ERROR, message, PATH, UPGRADE, ExitCode.ENVIRONMENT)


KEPT = Finding(
    "tokenizer", Severity.WARNING, "tokenizer.json differs from the hub's (9 bytes); kept, because it is valid", PATH
)
CUT = Fault("lfs-pointer", "d")
MERGES = "/t/model/merges.txt"


@pytest.mark.parametrize(
    ("file", "installed", "finding", "replace"),
    [
        (file_of(), "0.23", None, False),
        (file_of(fault=CUT), "0.23", broken("lfs pointer: d"), True),
        (file_of(fault=CUT, mismatch="m", paired_merges=True, loads="l"), "0.19", broken("lfs pointer: d"), True),
        (file_of(mismatch="m", known_from="cache"), "", broken("not the hub's file: m"), True),
        (file_of(MERGES, mismatch="m", known_from="record"), "", broken("not the hub's file: m", MERGES), True),
        (file_of(MERGES, known_from="cache"), "", None, False),
        (file_of(mismatch="9 bytes", known_from="record"), "", KEPT, False),
        (file_of(paired_merges=True), "0.19.1", too_new("0.19.1"), False),
        (file_of(paired_merges=True, loads="l"), "0.19.1", too_new("0.19.1"), False),
        (file_of(paired_merges=True), "0.20.0", None, False),
        (file_of(paired_merges=True), "0.20", None, False),
        (file_of(paired_merges=True), "0.23.1", None, False),
        (file_of(paired_merges=True), "1.0", None, False),
        (file_of(paired_merges=True), "", None, False),
        (file_of(), "0.19.1", None, False),
        (file_of(loads="no such model"), "0.23", broken("it fails to load: no such model"), True),
        (file_of(loads="l", mismatch="9 bytes"), "0.23", broken("it fails to load: l"), True),
    ],
)  # fmt: skip
def test_each_fault_is_reported_with_whether_a_replacement_helps(file, installed, finding, replace):
    wanted = () if finding is None else (FaultyFile(file, finding, replace),)
    assert judge_files([file], installed) == wanted


def test_every_file_is_judged_by_itself():
    files = [file_of(), file_of(MERGES, fault=CUT), file_of(fault=CUT)]
    assert [faulty.file for faulty in judge_files(files, "")] == files[1:]


def cached(revision, **known):
    return file_of(
        f"/hub/{revision}/tokenizer.json",
        f"/hub/{revision}",
        known_from="cache",
        repo="a/b",
        revision=revision,
        **known,
    )


BAD = file_of(fault=CUT)
OLD, PINNED = cached("r1"), cached("r2")
ASSET = file_of("/t/assets/tokenizer.json")


@pytest.mark.parametrize(
    ("files", "source", "repo", "revision", "copy"),
    [
        ([], "", "a/b", "", None),
        ([BAD], "", "a/b", "", None),
        ([BAD, OLD, PINNED], "", "a/b", "", OLD),
        ([BAD, OLD, PINNED], "", "a/b", "r2", PINNED),
        ([BAD, OLD], "", "a/b", "r2", None),
        ([BAD, OLD], "", "a/c", "", None),
        ([BAD, ASSET], "", "", "", None),
        ([BAD, OLD, ASSET], "/t/assets", "a/b", "", ASSET),
        ([BAD, OLD], "/t/assets", "a/b", "", None),
        ([BAD, file_of("/t/assets/merges.txt")], "/t/assets", "", "", None),
        ([BAD, file_of("/t/assets/tokenizer.json", PATH)], "/t/assets", "", "", None),
        ([BAD, file_of("/t/assets/tokenizer.json", fault=CUT)], "/t/assets", "", "", None),
        ([BAD, cached("r1", mismatch="m"), PINNED], "", "a/b", "", PINNED),
        ([BAD, cached("r1", loads="l")], "", "a/b", "", None),
        ([BAD, file_of("/x/tokenizer.json", known_from="record", repo="a/b")], "", "a/b", "", None),
    ],
)
def test_a_good_copy_is_valid_and_from_the_configured_folder_or_the_same_model(files, source, repo, revision, copy):
    assert good_copy(BAD, files, source, repo, revision) == copy


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.json"])
@pytest.mark.parametrize(
    "data", [b"[" * 200_000, b'{"model":' * 100_000, b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"]
)
def test_a_nested_file_is_a_fault_of_the_file(name, data):
    fault = judge_file(name, data)
    assert fault is not None and fault.kind in ("not-json", "truncated")
