"""Processes that the user's command starts: what they send each other is signed, whichever launcher started them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch.distributed.elastic.rendezvous import RendezvousParameters, c10d_rendezvous_backend

from remote.payload.proof.hooks.signed_objects import sign_objects
from remote.payload.proof.injection import python_path, write_hooks

PATIENCE_S = 300
LAUNCHED = """
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
print("rank", dist.get_rank(), "of", dist.get_world_size())
dist.destroy_process_group()
"""


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., None], tuple[Path]]:
        return Path.touch, (self.path,)


def backend_of(store: Path, nodes: int) -> Any:
    parameters = RendezvousParameters("c10d", str(store), "run", nodes, nodes, store_type="file")
    return c10d_rendezvous_backend.create_backend(parameters)[0]


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_state_of_torchruns_own_store_is_verified_if_one_host_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int
) -> None:
    key, touched = tmp_path / "key", tmp_path / "touched"
    key.write_bytes(bytes(32))
    theirs = backend_of(tmp_path / "store", nodes)
    monkeypatch.setattr(c10d_rendezvous_backend, "create_backend", c10d_rendezvous_backend.create_backend)
    for name in ("_object_to_tensor", "_tensor_to_object"):
        monkeypatch.setattr(dist.distributed_c10d, name, getattr(dist.distributed_c10d, name))
    monkeypatch.setenv("HALFSTEP_KEY_FILE", str(key))
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    sign_objects()
    ours = backend_of(tmp_path / "store", nodes)
    assert ours.get_state() is None
    state, token, has_set = ours.set_state(b"state")
    assert (state, has_set) == (b"state", True)
    assert ours.get_state()[0] == b"state"
    forged = pickle.dumps(Touch(touched))
    theirs.set_state(forged, token)
    if nodes == 1:
        for call in (ours.get_state, lambda: ours.set_state(b"next", token)):
            with pytest.raises(RuntimeError, match="no valid signature"):
                call()
    else:
        assert ours.get_state()[0] == forged


class Group:
    """A process group of another size than the default group, as of a trainer and its inference process."""

    def __init__(self, size: int) -> None:
        self.size = lambda: size


@pytest.mark.parametrize(("default", "size", "signed"), [(1, 2, 32), (1, 1, 0), (None, 2, 32), (1, None, 0)])
def test_the_group_that_exchanges_an_object_decides_whether_it_is_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default: int | None, size: int | None, signed: int
) -> None:
    c10d, key, touched = dist.distributed_c10d, tmp_path / "key", tmp_path / "touched"
    key.write_bytes(bytes(32))
    for name in ("_object_to_tensor", "_tensor_to_object"):
        monkeypatch.setattr(c10d, name, getattr(c10d, name))
    monkeypatch.setenv("HALFSTEP_KEY_FILE", str(key))
    for name in ("GROUP_WORLD_SIZE", "CROSS_SIZE"):
        monkeypatch.delenv(name, raising=False)
    group = Group(size) if size is not None else None
    unsigned = c10d._object_to_tensor(Touch(touched), "cpu", group)
    sign_objects()
    if default is not None:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=default)
    try:
        tensor, count = c10d._object_to_tensor("object", "cpu", group)
        assert int(count) - len(pickle.dumps("object")) == signed
        assert c10d._tensor_to_object(tensor, count, group) == "object"
        if signed:
            with pytest.raises(RuntimeError, match="no valid signature"):
                c10d._tensor_to_object(*unsigned, group)
            assert not touched.exists()
    finally:
        if default is not None:
            dist.destroy_process_group()


RANK_OF_NOTHING = """
import os, pickle
import torch.distributed as dist
import torch.distributed.optim.zero_redundancy_optimizer as zero
from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as rendezvous
print([hasattr(each, "__wrapped__") for each in (zero._broadcast_object, rendezvous.create_backend)])
"""


@pytest.mark.parametrize("rank", ["", "x", "1" * 30])
def test_what_is_imported_after_torch_signs_although_rank_is_no_number(tmp_path: Path, rank: str) -> None:
    ended = ran_below_hooks(tmp_path, f"import os\nos.environ['RANK'] = {rank!r}\n{RANK_OF_NOTHING}", "train.py")
    assert ended.stdout.splitlines()[-1:] == ["[True, True]"], ended.stderr


FUNCTION = """
import pickle, sys
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

def train():
    dist.init_process_group("gloo")
    received = [None, None]
    dist.all_gather_object(received, dist.get_rank())
    _, size = dist.distributed_c10d._object_to_tensor("object", "cpu", None)
    dist.destroy_process_group()
    return received, int(size) - len(pickle.dumps("object"))

if __name__ == "__main__":
    config = LaunchConfig(1, 1, 2, rdzv_backend="c10d", rdzv_endpoint="localhost:0", start_method=sys.argv[1])
    print(elastic_launch(config, train)())
"""

SPAWNED = """
import os, pickle, sys
import torch.distributed as dist
import torch.multiprocessing as mp

def train(rank):
    dist.init_process_group("gloo", f"file://{os.getcwd()}/store", rank=rank, world_size=2)
    received = [None, None]
    dist.all_gather_object(received, rank)
    _, size = dist.distributed_c10d._object_to_tensor("object", "cpu", None)
    print((received, int(size) - len(pickle.dumps("object"))), flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.start_processes(train, nprocs=2, start_method=sys.argv[1])
"""
LIKE_LIGHTNING = """
import os, pickle, subprocess, sys
import torch.distributed as dist
rank = int(os.environ.setdefault("LOCAL_RANK", "0"))
os.environ.update(WORLD_SIZE="2", NODE_RANK="0")
if rank == 0:
    other = subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "LOCAL_RANK": "1"})
dist.init_process_group("gloo", f"file://{os.getcwd()}/store", rank=rank, world_size=2)
received = [f"from {rank}"]
dist.broadcast_object_list(received, src=0)
_, size = dist.distributed_c10d._object_to_tensor("object", "cpu", None)
dist.destroy_process_group()
if rank == 0:
    other.wait()
print((received, int(size) - len(pickle.dumps("object"))), flush=True)
"""


def ran_below_hooks(folder: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the words in a job with the hooks and a key; `script` is train.py."""
    (folder / "hooks").mkdir()
    (folder / "key").write_bytes(os.urandom(32))
    (folder / "train.py").write_text(script)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HALFSTEP_")},
        "PYTHONPATH": python_path(write_hooks(str(folder / "hooks")), {}),
        "HALFSTEP_WATCH": str(folder),
        "HALFSTEP_KEY_FILE": str(folder / "key"),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    return subprocess.run(
        [sys.executable, *words],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_torchrun_that_announces_its_own_port_starts_its_processes(tmp_path: Path) -> None:
    words = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py")
    ended = ran_below_hooks(tmp_path, LAUNCHED, *words)
    assert (ended.returncode, ended.stdout.count("of 2")) == (0, 2), ended.stderr


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_that_run_a_function_sign_although_their_variables_are_set_after_the_import_of_torch(
    tmp_path: Path, method: str
) -> None:
    ended = ran_below_hooks(tmp_path, FUNCTION, "train.py", method)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("([0, 1], 32)") == 2, ended.stdout


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_of_torch_multiprocessing_sign_without_any_variable_of_a_launcher(
    tmp_path: Path, method: str
) -> None:
    ended = ran_below_hooks(tmp_path, SPAWNED, "train.py", method)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("([0, 1], 32)") == 2, ended.stdout


def test_processes_sign_if_their_launcher_counts_no_local_processes_as_lightning(tmp_path: Path) -> None:
    ended = ran_below_hooks(tmp_path, LIKE_LIGHTNING, "train.py")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("(['from 0'], 32)") == 2, ended.stdout


@pytest.mark.parametrize("count", ["GROUP_WORLD_SIZE", "CROSS_SIZE"])
def test_processes_whose_launcher_counts_several_hosts_do_not_sign(tmp_path: Path, count: str) -> None:
    script = f"import os; os.environ[{count!r}] = '2'\n{LIKE_LIGHTNING}"
    ended = ran_below_hooks(tmp_path, script, "train.py")
    assert ended.stdout.count("(['from 0'], 0)") == 2, ended.stderr
