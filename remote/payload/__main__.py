"""The payload's front door: `python payload.pyz VERB ...`; each verb is a module, imported when it is asked for."""

from __future__ import annotations

import importlib
import sys

VERBS = {
    "agent": "remote.payload.agent.answerer",
    "train": "remote.payload.training.run",
    "probe-cuda": "remote.payload.probes.cuda",
    "probe-torch": "remote.payload.probes.torch",
    "supervise": "remote.payload.jobs.supervisor",
    "hub": "remote.payload.fix.hub",
    "prove": "remote.payload.proof.prove",
    "settle": "remote.payload.agent.housekeeping",
    "card-step": "remote.payload.proof.card_step",
}


def main() -> int:
    """Runs the verb's `main` with the words after it."""
    verb, *words = sys.argv[1:] or [""]
    if verb not in VERBS:
        print(f"payload: no verb {verb!r}; one of {', '.join(VERBS)}", file=sys.stderr)
        return 2
    return int(importlib.import_module(VERBS[verb]).main(*words))


if __name__ == "__main__":
    sys.exit(main())
