"""The adapter is pulled completely and verified, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from remote.errors import ConnectionLost, PullRefused, RemoteFault
from remote.protocol.findings import Severity
from remote.pull.report import PulledState
from remote.pull.safetensors import judge_safetensors
from remote.pull.weights import check_weights, pull_weights


@pytest.fixture
def adapter(box) -> Path:
    folder = box.run / "adapter"
    folder.mkdir()
    tensors = {f"layer.{n}.lora_A": numpy.arange(n * 64, dtype=numpy.float32).reshape(n, 64) for n in (4, 16, 64)}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "adapter_config.json").write_text('{"r": 64}')
    (folder / "optimizer.pt").write_bytes(b"a pickle")
    return folder


def pull(box, host=None, **more):
    return pull_weights(host or box.host, box.key, box.name, box.mirror, **more)


def as_checkpoint(box, adapter: Path) -> Path:
    (box.run / "checkpoints").mkdir()
    return adapter.rename(box.run / "checkpoints" / "checkpoint-40")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_adapter_is_pulled_completely_and_a_second_pull_transfers_nothing(box, adapter):
    seen = []
    first = pull(box, progress=lambda done, total: seen.append((done, total)))
    local = box.mirror / "adapter"

    assert {path.name for path in local.iterdir()} == {"adapter_model.safetensors", "adapter_config.json"}
    assert set(load_file(local / "adapter_model.safetensors")) == {f"layer.{n}.lora_A" for n in (4, 16, 64)}
    assert {file.name: file.state for file in first.files}["optimizer.pt"] is PulledState.LEFT
    assert first.findings == ()
    assert seen[-1][0] == seen[-1][1] == first.added_bytes
    assert (local / "adapter_config.json").stat().st_mode & 0o777 == 0o600
    assert pull(box).added_bytes == 0
    assert sorted(path.name for path in box.mirror.iterdir()) == [".adapter.json", ".adapter.lock", "adapter"]


def test_the_adapter_of_a_checkpoint_is_pulled_without_the_state_of_the_training(box, adapter):
    checkpoint = as_checkpoint(box, adapter)
    (checkpoint / "trainer_state.json").write_text("{}")
    report = pull(box, checkpoint="checkpoints/checkpoint-40")
    assert report.findings == ()
    names = {path.name for path in (box.mirror / "adapter").iterdir()}
    assert names == {"adapter_model.safetensors", "adapter_config.json"}


@pytest.mark.parametrize("name", ["checkpoints/checkpoint-41", "../other/checkpoint-40", "checkpoints"])
def test_only_a_checkpoint_of_the_run_can_be_named(box, adapter, name):
    as_checkpoint(box, adapter)
    with pytest.raises(RemoteFault, match="no longer has"):
        pull(box, checkpoint=name)


def test_a_checkpoint_of_a_whole_model_has_no_adapter(box, adapter):
    checkpoint = as_checkpoint(box, adapter)
    (checkpoint / "adapter_model.safetensors").rename(checkpoint / "model.safetensors")
    with pytest.raises(RemoteFault) as fault:
        pull(box, checkpoint="checkpoints/checkpoint-40")
    assert fault.value.kind == "not-found"


def test_the_weights_are_checked_by_their_digest(box, adapter):
    weights = digest(adapter / "adapter_model.safetensors")
    assert not check_weights(box.mirror, weights).ok
    pull(box)
    assert check_weights(box.mirror, weights).ok
    with (box.mirror / "adapter" / "adapter_model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    assert not check_weights(box.mirror, weights).ok


def test_a_newer_adapter_is_published_and_the_older_one_kept(box, adapter):
    pull(box)
    old = (box.mirror / "adapter" / "adapter_config.json").read_bytes()
    (adapter / "adapter_config.json").write_text('{"r": 8}')
    pull(box)
    assert (box.mirror / "adapter" / "adapter_config.json").read_text() == '{"r": 8}'
    assert (box.mirror / "adapter.replaced-2" / "adapter_config.json").read_bytes() == old


def test_SE_a_host_that_changes_the_adapter_at_each_pull_does_not_fill_the_disk(box, adapter, monkeypatch):
    size = sum(path.stat().st_size for path in adapter.iterdir() if path.suffix != ".pt")
    monkeypatch.setattr("remote.pull.weights.MAX_BYTES", 3 * size + 10)
    for number in range(3):
        (adapter / "adapter_config.json").write_text(f'{{"r": {number}}}')
        pull(box)
    (adapter / "adapter_config.json").write_text('{"r": 4}')
    with pytest.raises(PullRefused, match="would take more than"):
        pull(box)
    assert (box.mirror / "adapter" / "adapter_config.json").read_text() == '{"r": 2}'
    assert (box.mirror / "adapter.replaced-3").is_dir() and not (box.mirror / "adapter.replaced-4").exists()


class Cut:
    """A host whose connection is lost after some bytes of each stream."""

    def __init__(self, host, after: int) -> None:
        self._host, self._after = host, after

    def ask(self, op, args, *, timeout_s):
        return self._host.ask(op, args, timeout_s=timeout_s)

    def fetch(self, op, args, sink, *, limit, timeout_s=60.0):
        stream = bytearray()
        self._host.fetch(op, args, stream.extend, limit=limit)
        sink(bytes(stream[: self._after]))
        raise ConnectionLost("cut")

    def close(self) -> None:
        pass


def test_a_cut_pull_publishes_nothing_and_continues_at_the_same_byte(box, adapter):
    big = os.urandom(3 * 2**20)
    header = json.dumps({"w": {"dtype": "U8", "shape": [len(big)], "data_offsets": [0, len(big)]}}).encode()
    (adapter / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + big)

    with pytest.raises(ConnectionLost):
        pull(box, Cut(box.host, 2 * 2**20 + 1000))
    assert not (box.mirror / "adapter").exists()
    came = []
    pull(box, progress=lambda done, total: came.append(done))

    assert digest(box.mirror / "adapter" / "adapter_model.safetensors") == digest(adapter / "adapter_model.safetensors")
    assert came[0] > 2**20
    assert not (box.mirror / ".adapter.part").exists()


def test_a_part_of_another_adapter_is_not_reused(box, adapter):
    part = box.mirror / ".adapter.part" / "adapter_model.safetensors"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 100)
    (part.parent / "stranger.json").write_text("{}")
    pull(box)
    assert digest(box.mirror / "adapter" / part.name) == digest(adapter / part.name)
    assert not (box.mirror / "adapter" / "stranger.json").exists()


class Lying:
    """A host that offers and sends arbitrary files."""

    def __init__(self, offer: object, stream: bytes = b"") -> None:
        self._offer, self._stream = offer, stream

    def ask(self, op, args, *, timeout_s):
        return self._offer

    def fetch(self, op, args, sink, *, limit, timeout_s=60.0):
        sink(self._stream)
        return {}

    def close(self) -> None:
        pass


def segment(data: bytes) -> bytes:
    return struct.pack(">IBQ", 0, 0, len(data)) + data


CONFIG = b'{"r": 64}'
SHA = hashlib.sha256(CONFIG).hexdigest()


@pytest.mark.parametrize(
    ("offer", "stream", "words"),
    [
        ({}, b"", "malformed"),
        ({"files": 3}, b"", "malformed"),
        ({"files": [["a"]]}, b"", "malformed"),
        ({"files": [["a", float("inf"), "0" * 64]]}, b"", "malformed"),
        ({"files": []}, b"", "no adapter files"),
        ({"files": [["a.json", 2**60, SHA]]}, b"", "more than"),
        ({"files": [["a.json", -1, SHA]]}, b"", "more than"),
        ({"files": [["a.json", 9, SHA]]}, segment(CONFIG + b"x"), "sent more"),
        ({"files": [["a.json", 9, SHA]]}, segment(b'{"r": 99}'), "twice"),
        ({"files": [["a.json", 9, SHA]]}, segment(CONFIG)[:-1], "twice"),
        ({"files": [["a.safetensors", 9, SHA]]}, segment(CONFIG), "safetensors"),
    ],
)
def test_an_inconsistent_adapter_is_refused_and_not_published(tmp_path, offer, stream, words):
    with pytest.raises(PullRefused, match=words):
        pull_weights(Lying(offer, stream), "p", "r", tmp_path)
    assert not (tmp_path / "adapter").exists()


def test_BI_53_a_name_that_would_leave_the_folder_is_refused_and_the_rest_is_pulled(tmp_path):
    offer = {"files": [["config.json", 9, SHA], ["../evil.json", 9, SHA], ["/etc/evil.json", 9, SHA]]}
    report = pull_weights(Lying(offer, segment(CONFIG)), "p", "r", tmp_path / "home")
    assert [finding.severity for finding in report.findings] == [Severity.ERROR, Severity.ERROR]
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home" / "adapter" / "config.json").read_bytes() == CONFIG


@pytest.mark.parametrize("special", ["$(id)", "`id`", "it's", 'a"b', "a\u2028b"])
def test_SE_a_name_with_a_meaning_in_a_shell_is_refused_and_the_rest_is_pulled(tmp_path, special):
    offer = {"files": [["config.json", 9, SHA], [f"{special}.json", 9, SHA]]}
    report = pull_weights(Lying(offer, segment(CONFIG)), "p", "r", tmp_path)
    assert [finding.severity for finding in report.findings] == [Severity.ERROR]
    assert [path.name for path in (tmp_path / "adapter").iterdir()] == ["config.json"]


def test_SE_the_digests_are_not_written_through_a_link_of_a_cloned_project(tmp_path):
    """A predictable temporary name would let a project choose any file of the user to be overwritten by the host."""
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / ".bashrc").write_text("mine")
    for name in (".adapter.json", ".adapter.json.part"):
        (folder / name).symlink_to(tmp_path / ".bashrc")
    pull_weights(Lying({"files": [["config.json", 9, SHA]]}, segment(CONFIG)), "p", "r", folder)
    assert (tmp_path / ".bashrc").read_text() == "mine"
    assert json.loads((folder / ".adapter.json").read_bytes())["adapter/config.json"][3] == SHA
    assert not (folder / ".adapter.json").is_symlink()


def test_a_pickled_adapter_comes_with_a_warning(box, adapter):
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    (finding,) = pull(box).findings
    assert finding.severity is Severity.WARNING
    assert "weights_only" in finding.message


def test_a_run_without_an_adapter_is_reported(box):
    with pytest.raises(RemoteFault, match="no adapter yet"):
        pull(box)


def header(**entries: object) -> bytes:
    raw = json.dumps(entries).encode()
    return struct.pack("<Q", len(raw)) + raw


F16 = {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (header(a=F16) + bytes(12), ""),
        (header(__metadata__={"format": "pt"}), ""),
        (b"", "header would have"),
        (struct.pack("<Q", 2**63) + b"{}", "header would have"),
        (header(a=F16) + bytes(11), "describes 12"),
        (header(a=F16) + bytes(13), "describes 12"),
        (header(a={**F16, "shape": [2, 4]}) + bytes(12), "is inconsistent"),
        (header(a={**F16, "dtype": "F17"}) + bytes(12), "is inconsistent"),
        (header(a={**F16, "shape": [-2, -3]}) + bytes(12), "is inconsistent"),
        (header(a={**F16, "shape": [True, 6]}) + bytes(12), "is inconsistent"),
        (header(a=F16, b=F16) + bytes(12), "overlap"),
        (header(a=7), "is inconsistent"),
        (struct.pack("<Q", 4) + b"nope", "not JSON"),
        (struct.pack("<Q", 2) + b"[]", "not an object"),
        (struct.pack("<Q", 13) + b'{"a":1,"a":2}', "twice"),
        (struct.pack("<Q", 100_000) + b"[" * 100_000, "not JSON"),
        (struct.pack("<Q", 3 * 10**6) + b"[]," * 10**6, "more than 1000000 values"),
        (struct.pack("<Q", 2**25 + 1) + bytes(2**25 + 1), "header would have"),
    ],
)
def test_a_header_must_account_for_every_byte(tmp_path, data, words):
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    found = judge_safetensors(path)
    assert words in found
    assert bool(found) == bool(words)


def test_SE_08_a_header_of_a_million_dimensions_is_refused_at_once(tmp_path):
    entry = {"dtype": "F32", "shape": [2**31] * 999_000, "data_offsets": [0, 4]}
    header = json.dumps({"a": entry}).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    began = time.process_time()
    assert "is inconsistent" in judge_safetensors(tmp_path / "a.safetensors")
    assert time.process_time() - began < 10.0
