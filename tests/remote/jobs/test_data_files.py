"""Features, tokens and statistics that a script saves are not named as its weights."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
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

Make = Callable[[Any], Any]


def saved(make: Make | bytes, **options: bool) -> bytes:
    """Return what `torch.save` writes for the value that `make` returns for the module torch, or the bytes."""
    if isinstance(make, bytes):
        return make
    import torch

    file = io.BytesIO()
    torch.save(make(torch), file, **options)
    return file.getvalue()


def tensor(torch: Any) -> Any:
    return torch.zeros(3)


def state(torch: Any) -> Any:
    return torch.nn.Linear(2, 2).state_dict()


DATA: dict[str, Make] = {
    "a tensor": tensor,
    "half precision": lambda torch: torch.zeros(3).half(),
    "a list of tensors": lambda torch: [torch.zeros(3)] * 2,
    "an array": lambda torch: torch.zeros(3).numpy(),
    "statistics": lambda _: {"mean": 0.5, "std": 1.0},
    "a sample": lambda torch: {"feats": torch.zeros(3), "text": "a"},
    "a batch": lambda torch: {"input_ids": torch.zeros(3), "labels": torch.zeros(3)},
}
WEIGHTS: dict[str, Make | bytes] = {
    "a state": state,
    "a module": lambda torch: torch.nn.Linear(2, 2),
    "a checkpoint": lambda torch: {"model": state(torch), "step": 3},
    "a step first": lambda torch: {"step": 3, "model": state(torch)},
    "parameters of one letter": lambda torch: {"W": torch.zeros(3)},
    "a parameter": lambda torch: torch.nn.Parameter(torch.zeros(3)),
    "parts": lambda torch: (state(torch), 3),
    "a part with the name of a feature": lambda torch: {"mel_encoder.weight": torch.zeros(3)},
    "another format": b"weights",
    "nothing": b"",
}


@pytest.mark.parametrize("name", DATA)
def test_a_file_that_is_no_state_of_a_model_is_data(name: str) -> None:
    assert is_data(saved(DATA[name])[:HEAD])


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_state_and_an_unknown_format_are_not_data(name: str) -> None:
    assert not is_data(saved(WEIGHTS[name])[:HEAD])


def test_the_format_before_torch_1_6_is_not_read() -> None:
    assert not is_data(saved(tensor, _use_new_zipfile_serialization=False)[:HEAD])


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
    of_model, of_data = saved(state), saved(tensor)

    def head(path: str) -> bytes:
        read.append(path)
        return of_model if "out/" in path else of_data

    utterances = [f"code/sets/{number}.pt" for number in range(1000)]
    mixed = ["code/out/a.pt", *(f"code/out/{number}.pt" for number in range(100))]
    assert without_data([*utterances, *mixed], head) == mixed
    assert len(read) == MOST_READ


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose script saved features, a cache and a checkpoint."""
    root = install_payload(tmp_path / "host") / ProjectLayout("p-1").run("r-1").root
    for number in range(3):
        write(root / f"code/sets/utt_{number}.pt", saved(tensor))
    write(root / "code/cache/tokens.bin", bytes(1000))
    write(root / "code/stats.pt", saved(DATA["statistics"]))
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
    write(run / "code/out/last.pt", saved(WEIGHTS["a checkpoint"]))
    write(run / "code/plain.pt", b"weights of another format")
    os.utime(run / "code/plain.pt", (1, 1))
    host = local_host(str(tmp_path / "host"))
    found = find_own_weights(host, HostConfig(host="local"), "p-1", "r-1", tmp_path)
    host.close()
    assert newest_own_files(str(run), ()) == ("code/out/last.pt", "code/plain.pt")
    assert found is not None and "/code/out/last.pt" in found.message and "/code/plain.pt" in found.message
    assert not any(word in found.message + found.command for word in ("utt", "tokens", "stats"))
