"""runtime: the precision plan is applied inside the training process, without an edit.

What it does
    Only with `fixers: {runtime: auto}`; it is off by default. In the proof and in the job, hooks of torch follow the
    precision plan (docs/precision.md) while your command runs:
    trained parameters are cast to float32 before an optimizer or DistributedDataParallel holds them, and tied ones
    stay tied; below capability 8.0, frozen bfloat16 parameters become float16, and autocast, Accelerate and
    TrainingArguments use float16 instead of bfloat16; a model whose parameters were cast runs under autocast,
    if your command has none; a plain loop (`loss.backward()`, `optimizer.step()`) under float16 autocast gets a loss
    scale, if it has no GradScaler, Accelerator or Trainer.

Why
    Source that is installed in site-packages, downloaded from a hub or configured over a network cannot be rewritten.
    The proof names such code in its findings.

Before
    fixers: {}

After
    fixers: {runtime: auto}

What it can break
    Each change is printed in the job's log as `halfstep runtime: ...`, and listed by the proof under `runtime`. Outside
    of halfstep the command does not have them. Checkpoints hold float32 weights where the command alone would write
    half precision. Parameters sharded by FSDP, optimizers of DeepSpeed or Apex, and LBFGS are left alone. The loss
    scale is not in your checkpoints; halfstep keeps it in the run's folder for a resumed job.

How to undo
    Remove `runtime: auto` from the config.
"""

from __future__ import annotations

from fixers.frame.change import Plan
from fixers.frame.findings import warning
from fixers.frame.site import Site

name = "runtime"
version = 1
safety = "safe"


def plan(site: Site) -> Plan:
    """Warn that the setting has no effect on the built-in trainer."""
    if site.settings.get(name) != "auto" or not site.config or site.config.get("command") is not None:
        return Plan()
    message = "the built-in trainer follows the precision plan itself: `runtime: auto` has no effect"
    return Plan((warning(name, message, "fixers.runtime", "remove runtime from fixers"),))
