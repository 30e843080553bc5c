"""What another user of the host can do to the processes of a training: no store to change, no pickle to replace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist

from remote.payload.proof.hooks import activation
from remote.payload.proof.hooks.signed_objects import UNSIGNED, sign_objects
from remote.payload.proof.injection import python_path, write_hooks

PATIENCE_S = 300
REDUCE = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(2):
    total = torch.ones(1) * (dist.get_rank() + 1)
    dist.all_reduce(total)
again = dist.new_group([0, 1])
dist.barrier(again)
print(int(total))
dist.destroy_process_group()
"""
OBJECTS = """
import pathlib, sys
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
class Touch:
    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(sys.argv[1], f"from-{rank}"),)
sent = Touch() if rank else {"an": "answer"}
if sys.argv[2] == "gather":
    received = [None, None]
    dist.all_gather_object(received, sent)
elif sys.argv[2] == "broadcast":
    received = [sent, "second"]
    dist.broadcast_object_list(received, src=1)
else:
    received = [None]
    dist.scatter_object_list(received, [sent, "second"], src=1)
print("received", received)
dist.barrier()
dist.destroy_process_group()
"""
CONSOLIDATED = """
import pathlib, sys
import torch, torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
dist.init_process_group("gloo")
rank = dist.get_rank()
class Touch:
    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(sys.argv[1], f"from-{rank}"),)
layers = [torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)]
weights = [weight for layer in layers for weight in layer.parameters()]
optimizer = ZeroRedundancyOptimizer(weights, optimizer_class=torch.optim.AdamW)
sum(layer(torch.ones(4)).sum() for layer in layers).backward()
optimizer.step()
if rank:
    state = optimizer.optim.state_dict
    optimizer.optim.state_dict = lambda: {**state(), "touch": Touch()}
optimizer.consolidate_state_dict(to=0)
print("received", len(optimizer.state_dict()["state"]) if rank == 0 else "")
dist.barrier()
dist.destroy_process_group()
"""


class Ranks:
    """Starts two processes as torchrun does, with the hooks and with the files of a job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "hooks").mkdir()
        self.hooks = write_hooks(str(folder / "hooks"))
        self.made = folder / "made"
        self.made.mkdir()
        self.server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._started: list[subprocess.Popen[str]] = []

    def key(self, name: str, size: int = 32) -> str:
        path = self.folder / name
        path.write_bytes(os.urandom(size))
        return str(path)

    def run(self, script: str, *words: str, keys: tuple[str, str] = ("", ""), **more: str) -> list[tuple[int, str]]:
        """Return exit code and output of both ranks. `server` is the store that the launcher announced."""
        common = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HALFSTEP_")},
            "PYTHONPATH": python_path(self.hooks, {}),
            "HALFSTEP_WATCH": str(self.folder),
            "GLOO_SOCKET_IFNAME": "lo",
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.server.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            **more,
        }
        for rank, key in enumerate(keys):
            environment = {**common, "RANK": str(rank), "LOCAL_RANK": str(rank), "HALFSTEP_KEY_FILE": key}
            argv = [sys.executable, "-c", script, str(self.made), *words]
            started = subprocess.Popen(argv, env=environment, stdout=-1, stderr=subprocess.STDOUT, text=True)
            self._started.append(started)
        outputs = [each.communicate(timeout=PATIENCE_S)[0] for each in self._started]
        return [(each.returncode, out) for each, out in zip(self._started, outputs, strict=True)]

    def close(self) -> None:
        for each in self._started:
            each.kill()
            each.wait()


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    made = Ranks(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("restart", ["0", "2"])
def test_ranks_find_each_other_by_a_private_file_although_the_store_at_the_port_is_another_users(
    ranks: Ranks, restart: str
) -> None:
    for rank in range(2):
        ranks.server.set(f"/default_pg/0//cpu//0/{rank}", "\0" * 200)
    keys = ranks.server.num_keys()
    folder = ranks.folder / "store"
    folder.mkdir()
    port = ranks.server.port
    ended = ranks.run(REDUCE, HALFSTEP_STORE=str(folder / "job"), TORCHELASTIC_RESTART_COUNT=restart)
    assert [(code, out.split()[-1:]) for code, out in ended] == [(0, ["3"]), (0, ["3"])], ended
    assert ranks.server.num_keys() == keys
    assert {path.name for path in folder.iterdir()} <= {f"job-{port}-{restart}"}


@pytest.mark.parametrize("more", [{}, {"GROUP_WORLD_SIZE": "2"}], ids=["own launcher", "several hosts"])
def test_the_store_of_another_launcher_or_of_several_hosts_stays_at_its_port(
    ranks: Ranks, more: dict[str, str]
) -> None:
    store = {"HALFSTEP_STORE": str(ranks.folder / "job")} if more else {}
    assert [code for code, _ in ranks.run(REDUCE, **store, **more)] == [0, 0]
    assert not list(ranks.folder.glob("job*"))
    assert ranks.server.num_keys() > 2


@pytest.mark.parametrize("collective", ["gather", "broadcast", "scatter"])
def test_an_object_of_a_process_without_the_key_is_not_unpickled(ranks: Ranks, collective: str) -> None:
    (code, out), _ = ranks.run(OBJECTS, collective, keys=(ranks.key("ours"), ranks.key("theirs")))
    assert code != 0
    assert UNSIGNED in out
    assert not list(ranks.made.iterdir())


@pytest.mark.parametrize("collective", ["gather", "broadcast", "scatter"])
@pytest.mark.parametrize("has_key", [True, False], ids=["signed", "without a key"])
def test_objects_arrive_from_a_process_with_the_same_key(ranks: Ranks, collective: str, has_key: bool) -> None:
    key = ranks.key("ours") if has_key else ""
    ended = ranks.run(OBJECTS, collective, keys=(key, key))
    assert [(code, "received" in out) for code, out in ended] == [(0, True), (0, True)], ended
    assert (ranks.made / "from-1").exists()


@pytest.mark.parametrize("changed", ["a bit", "its end", "its number of bytes"])
def test_a_changed_object_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    module = dist.distributed_c10d
    for name in ("_object_to_tensor", "_tensor_to_object"):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setenv("HALFSTEP_KEY_FILE", str(key))
    sign_objects()
    packed, size = module._object_to_tensor([1, "two"], "cpu", None)
    assert module._tensor_to_object(packed, size, None) == [1, "two"]
    if changed == "a bit":
        packed[4] ^= 1
    elif changed == "its end":
        packed = packed[:20]
    else:
        size = size - 40
    with pytest.raises(RuntimeError, match="no valid signature"):
        module._tensor_to_object(packed, size, None)


@pytest.mark.parametrize("problem", ["missing", "short", "unreadable"])
def test_a_training_ends_before_its_first_exchange_if_the_key_of_its_job_cannot_be_read(
    ranks: Ranks, problem: str
) -> None:
    keys = {"missing": str(ranks.folder / "gone"), "short": ranks.key("short", 31), "unreadable": str(ranks.folder)}
    ended = ranks.run(OBJECTS, "gather", keys=(keys[problem], keys[problem]))
    assert [(code != 0, "cannot be read" in out, "received" in out) for code, out in ended] == [(True, True, False)] * 2
    assert not list(ranks.made.iterdir())


@pytest.mark.parametrize("function", ["keep_stores_private", "sign_objects", "bind_stores"])
def test_a_training_does_not_begin_without_its_protection_against_other_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, function: str
) -> None:
    def fail() -> None:
        raise ValueError("unexpected torch")

    monkeypatch.delenv("HALFSTEP_RUNTIME", raising=False)
    monkeypatch.setenv("HALFSTEP_WATCH", str(tmp_path))
    monkeypatch.setattr(activation, function, fail)
    with pytest.raises(ValueError, match="unexpected torch"):
        activation.Hooks().start()


def test_a_torch_without_the_functions_to_sign_is_named_in_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    monkeypatch.setenv("HALFSTEP_KEY_FILE", str(key))
    monkeypatch.delattr(dist.distributed_c10d, "_tensor_to_object")
    with pytest.warns(RuntimeWarning, match="has no _tensor_to_object to patch"):
        sign_objects()
    assert not hasattr(dist.distributed_c10d._object_to_tensor, "__wrapped__")


@pytest.mark.parametrize("has_one_key", [True, False])
def test_the_state_of_a_sharded_optimizer_is_not_unpickled_from_a_process_without_the_key(
    ranks: Ranks, has_one_key: bool
) -> None:
    key = ranks.key("ours")
    (code, out), _ = ranks.run(CONSOLIDATED, keys=(key, key if has_one_key else ranks.key("theirs")))
    assert (code == 0, "received 4" in out, UNSIGNED in out) == (has_one_key, has_one_key, not has_one_key), out
    assert ((ranks.made / "from-1").exists()) is has_one_key
