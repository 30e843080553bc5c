"""runtime: the precision plan is applied in the training process, without editing files.

What it does
    Runs only with `fixers: {runtime: auto}`; it is off by default. In the proof and in the job, torch hooks apply the
    precision plan (docs/precision.md) while your command runs:

    * Trained parameters are cast to float32 before an optimizer or DistributedDataParallel gets them. Tied parameters
      stay tied.
    * Below compute capability 8.0, frozen bfloat16 parameters become float16, and autocast, Accelerate and
      TrainingArguments use float16 instead of bfloat16.
    * A model whose parameters were cast runs under autocast, unless your command uses autocast.
    * A plain loop (`loss.backward()`, `optimizer.step()`) under float16 autocast gets a loss scale, unless the loop
      uses a GradScaler, an Accelerator or a Trainer.

Why
    Source code in site-packages or from a hub, and settings that come over a network, cannot be rewritten. The proof
    names such code in its findings.

Before
    fixers: {}

After
    fixers: {runtime: auto}

What it can break
    The job's log shows each change as `halfstep runtime: ...`, and the proof lists the changes under `runtime`. Outside
    halfstep, your command runs without these changes. Checkpoints contain float32 weights where the command without
    this fixer would write half precision. Parameters sharded by FSDP, optimizers of DeepSpeed or Apex, and LBFGS are
    not changed. Your checkpoints do not contain the loss scale; halfstep stores it in the run's folder for a resumed
    job.

How to undo
    Remove `runtime: auto` from the config.
"""

from __future__ import annotations

from fixers.frame.change import Plan
from fixers.frame.findings import warning
from fixers.frame.site import Site

name = "runtime"
safety = "safe"


def plan(site: Site) -> Plan:
    """Warn that the setting has no effect on the built-in trainer."""
    if site.settings.get(name) != "auto" or not site.config or site.config.get("command") is not None:
        return Plan()
    message = "the built-in trainer follows the precision plan itself: `runtime: auto` has no effect"
    return Plan((warning(name, message, "fixers.runtime", "remove runtime from fixers"),))
