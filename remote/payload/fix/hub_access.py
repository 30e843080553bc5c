"""Check the host's access to the model hub: the cached model, the token, and the hub's answer."""

from __future__ import annotations

import os
from typing import Any, Dict

from remote.payload.fix.hub_client import ask_hub_client, hub_token
from remote.payload.fix.tokenizer import ASK_TIMEOUT_S, cached_snapshot, hub_cache, offline
from remote.payload.request.call import Call
from remote.protocol.hub_access import HubFacts
from remote.protocol.values import encode

WEIGHTS = (".safetensors", ".bin", ".safetensors.index.json")


def look_at_hub(call: Call) -> Dict[str, Any]:
    """Return the `HubFacts` of one model. The hub is queried only if the model is not in the cache."""
    environment = call.args.get("environment", {})
    repo, revision = call.args["repo"], call.args["revision"]
    cache, token = hub_cache(environment), hub_token(environment)[1]
    snapshot = cached_snapshot(cache, repo, revision)
    if snapshot and _is_complete(snapshot):
        return _encoded(HubFacts(True, cache, token))
    if offline(environment):
        return _encoded(HubFacts(False, cache, token, "offline", "offline mode is on"))
    if not call.args["python"]:
        return _encoded(HubFacts(False, cache, token, "no-library", "the project's interpreter cannot be run"))
    request = {"do": "tree", "repo": repo, "revision": revision, "names": []}
    answer = ask_hub_client(call.args["python"], call.payload, request, environment, ASK_TIMEOUT_S)
    fault, message = str(answer.get("fault", "")), str(answer.get("message", ""))
    return _encoded(HubFacts(False, cache, token, fault, message, withheld=bool(token and answer.get("withheld"))))


def _is_complete(snapshot: str) -> bool:
    """Return True if the snapshot has a config and weights, and no dangling links."""
    names = os.listdir(snapshot)
    intact = all(os.path.exists(os.path.join(snapshot, name)) for name in names)
    return intact and "config.json" in names and any(name.endswith(WEIGHTS) for name in names)


def _encoded(facts: HubFacts) -> Dict[str, Any]:
    answer: Dict[str, Any] = encode(facts)
    return answer
