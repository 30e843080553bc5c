"""Measure the overhead of a proof: run a command for the same number of optimizer steps with and without the proof.

python benchmarks/proof.py [STEPS]
The command is the Trainer of transformers with a PEFT adapter on a Llama of 8 layers, on the CPU. Without the proof,
the command runs the given number of steps and ends by itself. Under the proof, it is started with a thousand steps, and
the proof ends it after the same number. Rounds alternate, and the best time of each variant is used. The proof's time
includes starting its runner, copying the tree, the judgement, and removing the scratch folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from remote.link.local import local_host
from remote.operations.proof import run_proof
from remote.policy.precision import judge_precision
from remote.protocol.proof import ProofRequest

ROUNDS = 3
MOST_OVERHEAD = 0.25
THREADS = {"OMP_NUM_THREADS": "1"}

SCRIPT = """
import sys
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

torch.manual_seed(0)
shape = dict(vocab_size=4096, hidden_size=256, intermediate_size=768, num_hidden_layers=8, num_attention_heads=8)
model = get_peft_model(LlamaForCausalLM(LlamaConfig(**shape)), LoraConfig(r=16, target_modules=["q_proj", "v_proj"]))

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 8000
    def __getitem__(self, at):
        tokens = torch.randint(1, 4096, (128,))
        labels = tokens.clone()
        labels[:64] = -100
        return {"input_ids": tokens, "labels": labels, "attention_mask": torch.ones(128, dtype=torch.long)}

arguments = TrainingArguments("out", per_device_train_batch_size=4, max_steps=int(sys.argv[1]), report_to=[],
                              use_cpu=True, logging_steps=1, learning_rate=1e-3, save_strategy="no")
Trainer(model=model, args=arguments, train_dataset=Samples()).train()
"""


def main() -> int:
    """Print one JSON object. Return 1 if the command takes over 25 % longer under the proof."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        (workspace / "tree").mkdir()
        (workspace / "tree" / "train.py").write_text(SCRIPT)
        rounds = [(time_unproved(workspace, steps), run_proved(workspace, steps)) for _ in range(ROUNDS)]
    unproved_s, proved = (min(times) for times in zip(*rounds, strict=True))
    overhead = proved / unproved_s - 1
    result = {
        "steps": steps,
        "unproved_s": round(unproved_s, 2),
        "proved_s": round(proved, 2),
        "overhead": round(overhead, 3),
    }
    print(json.dumps(result))
    return 0 if overhead <= MOST_OVERHEAD else 1


def time_unproved(workspace: Path, steps: int) -> float:
    """Return the seconds of the command without the proof."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "train.py", str(steps)],
        cwd=workspace / "tree",
        env={**os.environ, **THREADS},
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - began


def run_proved(workspace: Path, steps: int) -> float:
    """Return the seconds of the proof, from the request to its report."""
    plan = judge_precision(capability=None, requested="fp32")
    argv = (sys.executable, "train.py", "1000")
    request = ProofRequest(
        "p", argv, plan, source=str(workspace / "tree"), environment=THREADS, steps=steps, attempts=steps
    )
    host = local_host(str(workspace / "work"), keep=False)
    try:
        began = time.perf_counter()
        report = run_proof(host, request)
        seconds = time.perf_counter() - began
    finally:
        host.close()
    if report.applied != steps or not report.ok:
        raise SystemExit(f"the proof has unexpected findings: {report.findings}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
