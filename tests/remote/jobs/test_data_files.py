"""Features, tokens and statistics that a script saves are not named as its weights."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline.config.host_model import HostConfig
from pipeline.hosts.own_weights import find_own_weights
from remote.link.local import local_host
from remote.payload.checkpoints.own_files import newest_own_files
from remote.protocol.data_files import HEAD, MOST_READ, is_data, is_data_path, without_data
from remote.protocol.layout import ProjectLayout
from tests.lab.payload import install_payload

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")


def saved(value: Any, **options: bool) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def linear() -> Any:
    return torch.nn.Linear(2, 2)


TENSOR, STATE = saved(torch.zeros(3)), saved(linear().state_dict())
DATA = {
    "a tensor": TENSOR,
    "half precision": saved(torch.zeros(3).half()),
    "a list of tensors": saved([torch.zeros(3)] * 2),
    "an array": saved(np.zeros(3)),
    "statistics": saved({"mean": 0.5, "std": 1.0}),
    "a sample": saved({"feats": torch.zeros(3), "text": "a"}),
    "a batch": saved({"input_ids": torch.zeros(3), "labels": torch.zeros(3)}),
}
WEIGHTS = {
    "a state": STATE,
    "a module": saved(linear()),
    "a checkpoint": saved({"model": linear().state_dict(), "step": 3}),
    "a step first": saved({"step": 3, "model": linear().state_dict()}),
    "parameters of one letter": saved({"W": torch.zeros(3)}),
    "a parameter": saved(torch.nn.Parameter(torch.zeros(3))),
    "parts": saved((linear().state_dict(), 3)),
    "a part with the name of a feature": saved({"mel_encoder.weight": torch.zeros(3)}),
    "the old format": saved(torch.zeros(3), _use_new_zipfile_serialization=False),
    "another format": b"weights",
    "nothing": b"",
}


@pytest.mark.parametrize("name", DATA)
def test_a_file_that_is_no_state_of_a_model_is_data(name: str) -> None:
    assert is_data(DATA[name][:HEAD])


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_state_and_an_unknown_format_are_not_data(name: str) -> None:
    assert not is_data(WEIGHTS[name][:HEAD])


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("code/features/utt_1.pt", True),
        ("code/cache/tokens.bin", True),
        ("code/data/train.bin", True),
        ("code/dump/Mels/a/utt.pt", True),
        ("code/cache/model.pt", False),
        ("code/cache/g_00010000", False),
        ("code/mel/generator.pt", False),
        ("code/features/step-10.ckpt", False),
        ("code/cache/a.safetensors", False),
        ("code/out/utt_1.pt", False),
        ("code/trained.bin", False),
        ("checkpoints/epoch1/a.pt", False),
    ],
)
def test_a_path_of_data_has_a_folder_or_a_name_of_data_and_no_name_of_a_checkpoint(path: str, found: bool) -> None:
    assert is_data_path(path) is found


def test_files_that_are_not_read_are_judged_by_their_folder() -> None:
    read: list[str] = []

    def head(path: str) -> bytes:
        read.append(path)
        return STATE if "out/" in path else TENSOR

    utterances = [f"code/sets/{number}.pt" for number in range(1000)]
    mixed = ["code/out/a.pt", *(f"code/out/{number}.pt" for number in range(100))]
    assert without_data([*utterances, *mixed], head) == mixed
    assert len(read) == MOST_READ


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose script saved features, a cache and a checkpoint."""
    root = install_payload(tmp_path / "host") / ProjectLayout("p-1").run("r-1").root
    for number in range(3):
        write(root / f"code/sets/utt_{number}.pt", TENSOR)
    write(root / "code/cache/tokens.bin", bytes(1000))
    write(root / "code/stats.pt", DATA["statistics"])
    return root


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_a_run_with_nothing_but_data_has_no_own_files_and_no_own_weights(run: Path, tmp_path: Path) -> None:
    host = local_host(str(tmp_path / "host"))
    assert newest_own_files(str(run), ()) == ()
    assert find_own_weights(host, HostConfig(host="local"), "p-1", "r-1", tmp_path) is None
    host.close()


def test_the_checkpoint_of_a_run_with_data_is_its_only_own_file(run: Path, tmp_path: Path) -> None:
    write(run / "code/out/last.pt", WEIGHTS["a checkpoint"])
    write(run / "code/plain.pt", b"weights of another format")
    os.utime(run / "code/plain.pt", (1, 1))
    host = local_host(str(tmp_path / "host"))
    found = find_own_weights(host, HostConfig(host="local"), "p-1", "r-1", tmp_path)
    host.close()
    assert newest_own_files(str(run), ()) == ("code/out/last.pt", "code/plain.pt")
    assert found is not None and "/code/out/last.pt" in found.message and "/code/plain.pt" in found.message
    assert not any(word in found.message + found.command for word in ("utt", "tokens", "stats"))
