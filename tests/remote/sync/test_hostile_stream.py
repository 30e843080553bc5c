"""A hostile laptop cannot write outside the tree or through a link."""

from __future__ import annotations

import hashlib
import json
import os
import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.errors import RemoteFault
from remote.payload.request.refusal import Refusal
from remote.payload.tree.paths import check_link, check_path
from remote.protocol.blocks import (
    QUICK_LEVEL,
    SMALL_LEVEL,
    UNCOMPRESSED,
    BadStream,
    is_dense,
    pack_blocks,
    unpack_blocks,
)
from remote.protocol.tree import Manifest
from remote.sync.stream import pack_head
from tests.remote.sync.sync_bench import contents

DIGEST = hashlib.sha256(b"x").hexdigest()
EMPTY = Manifest({}).source_digest()


def receive(bench, head: object, data: bytes = b"", **changes):
    args = {"project": bench.scan().project, "owner": bench.scan().owner, "base": EMPTY, "codec": "zlib", **changes}
    return bench.host.send("tree.receive", args, pack_blocks([(pack_head(head), False), (data, False)], "zlib"))


def row(path: str, *, link: str = "", digest: str = DIGEST) -> list[object]:
    return [path, digest, 0o644, 1, link, True]


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "a/../../x", "", ".", "..", "a//b", "a/./b", "x\0y", "n" * 256, "a/" * 2000 + "b", "a/"]
)
def test_BI_53_a_name_that_leaves_the_tree_is_refused_before_anything_is_written(bench, path):
    for head in (
        {"rows": [row("good.py"), row(path)], "deletes": [], "contents": [[DIGEST, 1]]},
        {"rows": [], "deletes": [path], "contents": []},
    ):
        with pytest.raises(RemoteFault, match="was not written") as refused:
            receive(bench, head, b"x")
        assert refused.value.kind == "bad-path"
    assert not contents(bench.tree) and not list(bench.workdir.parent.rglob("x"))


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "a/../../x", "", "x\0y", "../../tree/x"])
def test_BI_53_a_link_that_leaves_the_tree_is_refused(bench, target):
    with pytest.raises(Refusal):
        check_link("here", target)
    if target:
        with pytest.raises(RemoteFault, match="was not written"):
            receive(bench, {"rows": [row("here", link=target)], "deletes": [], "contents": []})
    assert not contents(bench.tree)


def test_BI_53_nothing_is_written_through_a_link_that_came_in_the_same_stream(bench):
    head = {"rows": [row("a", link="b"), row("a/x")], "deletes": [], "contents": [[DIGEST, 1]]}
    receive(bench, head, b"x")
    assert contents(bench.tree) in ({"a": "-> b"}, {"a/x": f"{DIGEST} -"})


@pytest.mark.parametrize(
    "head",
    [
        [],
        {},
        {"rows": 1, "deletes": [], "contents": []},
        {"rows": [["a"]], "deletes": [], "contents": []},
        {"rows": [row("a", digest="../../x")], "deletes": [], "contents": []},
        {"rows": [], "deletes": [], "contents": [["../../x", 1]]},
        {"rows": [], "deletes": [1], "contents": []},
    ],
)
def test_an_invalid_index_is_rejected(bench, head):
    with pytest.raises(RemoteFault):
        receive(bench, head)
    assert not contents(bench.tree)
    assert bench.sync().report.ok


@pytest.mark.parametrize("project", ["../other", "a/b", "", ".", "..", "-x", "a\0b", "x" * 200])
def test_a_project_is_a_plain_folder_name(bench, project):
    with pytest.raises(RemoteFault, match="is not a valid name of a project"):
        receive(bench, {"rows": [], "deletes": [], "contents": []}, project=project)


def test_a_content_with_a_wrong_digest_is_reported_and_nothing_is_changed(bench):
    answer = receive(bench, {"rows": [row("a")], "deletes": [], "contents": [[DIGEST, 1]]}, b"y")
    assert answer["torn"] == [DIGEST] and not contents(bench.tree)


def test_a_stream_that_ends_early_is_refused(bench):
    with pytest.raises(RemoteFault, match="ended before its last file"):
        receive(bench, {"rows": [row("a")], "deletes": [], "contents": [[DIGEST, 100]]}, b"x")
    assert not contents(bench.tree)


def test_a_sync_deletes_only_paths_that_were_sent(bench):
    """A path that is not in the manifest is never deleted."""
    bench.tree.mkdir(parents=True)
    (bench.tree / "theirs.txt").write_text("x")
    receive(bench, {"rows": [], "deletes": ["theirs.txt"], "contents": []})
    assert (bench.tree / "theirs.txt").exists()


@given(path=st.text(max_size=30))
@settings(max_examples=300, deadline=None)
def test_every_name_that_passes_stays_inside(path):
    try:
        checked = check_path(path)
    except (Refusal, UnicodeEncodeError):
        return
    assert os.path.normpath(os.path.join("/tree", checked)) == f"/tree/{checked}"


@given(pieces=st.lists(st.tuples(st.binary(max_size=3000), st.booleans()), max_size=12), cut=st.integers(1, 5000))
@settings(max_examples=200, deadline=None)
def test_blocks_are_unpacked_however_the_connection_splits_them(pieces, cut):
    packed = b"".join(pack_blocks(pieces, "zlib"))
    chunks = [packed[at : at + cut] for at in range(0, len(packed), cut)]
    assert b"".join(unpack_blocks(chunks, "zlib")) == b"".join(data for data, _ in pieces)


@given(levels=st.lists(st.sampled_from([UNCOMPRESSED, QUICK_LEVEL, SMALL_LEVEL]), min_size=1, max_size=8))
@settings(max_examples=50, deadline=None)
def test_a_change_of_the_compression_level_does_not_change_the_data(levels):
    code = [f"x_{number} = load({number})\n".encode() * 30_000 for number in range(len(levels))]
    turns = iter(levels)
    packed = list(pack_blocks([(piece, False) for piece in code], "zlib", lambda: next(turns)))
    assert len(packed) == len(code)
    assert [len(block) >= len(piece) for block, piece in zip(packed, code, strict=True)] == [
        level == UNCOMPRESSED for level in levels
    ]
    assert b"".join(unpack_blocks(packed, "zlib")) == b"".join(code)


def test_an_index_of_any_size_gets_through():
    names = random.Random(5).randbytes(6 * 2**20)
    packed = b"".join(pack_blocks([(names, False)], "zlib"))
    assert b"".join(unpack_blocks([packed], "zlib")) == names


@given(noise=st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_random_bytes_are_not_accepted_as_a_stream_of_blocks(noise):
    try:
        out = b"".join(unpack_blocks([noise], "zlib"))
    except BadStream:
        return
    assert len(out) <= 2**20


def test_a_decompression_bomb_is_unpacked_in_bounded_pieces():
    bomb = zlib.compress(bytes(64 * 2**20), 9)
    block = bytes([1]) + len(bomb).to_bytes(4, "big") + bomb
    sizes = [len(piece) for piece in unpack_blocks([block], "zlib")]
    assert sum(sizes) == 64 * 2**20 and max(sizes) <= 256 * 1024


def test_media_is_sent_uncompressed_and_code_compressed():
    media, code = random.Random(1).randbytes(100_000), b"x = load(y)\n" * 10_000
    assert is_dense(media[:32768]) and not is_dense(code[:32768]) and not is_dense(media[:100])
    packed = b"".join(pack_blocks([(code, False), (media, True), (code, False)], "zlib"))
    assert len(packed) < 100_000 + 5_000
    assert json.dumps(b"".join(unpack_blocks([packed], "zlib")) == code + media + code) == "true"
