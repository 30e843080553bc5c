"""`fixers: {runtime: auto}` in two processes that torchrun starts, as in a job."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from remote.payload.proof.injection import python_path, write_hooks
from remote.policy.precision import judge_precision
from remote.protocol.runtime import runtime_environment

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
SCRIPT = """
import sys, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(7)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).half()
start = [p.detach().clone().float() for p in model.parameters()]
AVERAGED
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(rank)
for step in range(6):
    with torch.autocast("cpu", torch.bfloat16):
        loss = (trained(torch.randn(4, 8)).float() - 1).pow(2).mean() / 100
    if step == 2 and rank == 1:
        loss = loss * float("inf")
    loss.backward()
    average()
    optimizer.step()
    optimizer.zero_grad()
mine = torch.cat([p.detach().flatten() for p in model.parameters()])
both = [torch.empty_like(mine) for _ in range(2)]
dist.all_gather(both, mine)
assert mine.dtype == torch.float32, mine.dtype
assert bool(mine.isfinite().all())
assert torch.equal(*both)
assert {state["step"].item() for state in optimizer.state.values()} == {5.0}
sys.stdout.write(f"rank {rank} finished\\n")
dist.destroy_process_group()
"""
AVERAGED = {
    "DistributedDataParallel": "trained, average = nn.parallel.DistributedDataParallel(model), lambda: None",
    "by hand": "trained = model\ndef average():\n    for p in model.parameters():\n"
    "        dist.all_reduce(p.grad)\n        p.grad /= 2",
}

LINE = {"DistributedDataParallel": 9, "by hand": 14}
"""The line before which trained tensors are cast: it creates the buckets or the optimizer."""


@pytest.mark.parametrize("kind", AVERAGED)
def test_every_rank_has_the_plan_and_skips_the_same_steps(kind, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT.replace("AVERAGED", AVERAGED[kind]))
    hooks = write_hooks(str(tmp_path / "hooks"))
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(hooks, {}),
        "HALFSTEP_PROOF": "",
        "HALFSTEP_WATCH": str(tmp_path),
        "OMP_NUM_THREADS": "1",
        **runtime_environment(judge_precision(capability=(7, 5))),
    }
    done = subprocess.run(
        [*TORCHRUN, "train.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.split("\n")[:2]) == ["rank 0 finished", "rank 1 finished"]
    assert done.stderr.count("halfstep runtime: cast 4 trained tensors") == 1
    assert f"at train.py:{LINE[kind]}" in done.stderr
    assert done.stderr.count("halfstep runtime: skipped a step whose gradients overflowed") == 1
