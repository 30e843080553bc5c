"""The payload's entry point: `python payload.pyz VERB ...` imports the verb's module and runs its `main`."""

from __future__ import annotations

import gc
import importlib
import sys

VERBS = {
    "agent": "remote.payload.agent.answerer",
    "train": "remote.payload.training.run",
    "evaluate": "remote.payload.training.evaluation_job",
    "merge": "remote.payload.training.merging",
    "probe-cuda": "remote.payload.probes.cuda",
    "probe-torch": "remote.payload.probes.torch",
    "nodes": "remote.payload.jobs.nodes",
    "node": "remote.payload.jobs.node",
    "supervise": "remote.payload.jobs.supervisor",
    "hub": "remote.payload.fix.hub",
    "prove": "remote.payload.proof.prove",
    "settle": "remote.payload.agent.housekeeping",
    "card-step": "remote.payload.proof.card_step",
}


def main() -> int:
    """Run the verb's `main` with the remaining arguments and return its exit status."""
    verb, *arguments = sys.argv[1:] or [""]
    if verb not in VERBS:
        print(f"payload: unknown verb {verb!r}; choose one of {', '.join(VERBS)}", file=sys.stderr)
        return 2
    gc.disable()  # a quarter of the time of importing torch and transformers is spent in collections
    module = importlib.import_module(VERBS[verb])
    gc.enable()
    status = int(module.main(*arguments))
    gc.freeze()  # else the collections at interpreter exit visit all objects
    return status


if __name__ == "__main__":
    sys.exit(main())
