"""Check the host's access to the model hub: the cached model, the token, and the hub's answer."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping

from remote.payload.fix.tokenizer import ASK_TIMEOUT_S, cached_snapshot, hub_cache, offline
from remote.payload.probes.project_python import (
    TOKEN_FILE,
    TOKENS,
    ask_hub_client,
    hub_home,
    hub_tokens,
    job_environment,
)
from remote.payload.request.call import Call
from remote.protocol.hub_access import HubFacts
from remote.protocol.values import encode

WEIGHTS = (".safetensors", ".bin", ".safetensors.index.json")


def look_at_hub(call: Call) -> Dict[str, Any]:
    """Return the `HubFacts` of one model. The hub is queried only if the model is not in the cache."""
    environment = call.args.get("environment", {})
    repo, revision = call.args["repo"], call.args["revision"]
    cache, token = hub_cache(environment), token_source(environment)
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


def token_source(environment: Mapping[str, str]) -> str:
    """Return the variable or file that contains a token for huggingface_hub, or "" if there is none."""
    folder = hub_home(job_environment(environment))
    env = job_environment(hub_tokens(environment))
    for name in TOKENS:
        if env.get(name):
            return name
    path = os.path.expanduser(env.get("HF_TOKEN_PATH") or os.path.join(folder, TOKEN_FILE))
    try:
        return path if os.path.getsize(path) > 0 else ""
    except OSError:
        return ""


def _is_complete(snapshot: str) -> bool:
    """Return True if the snapshot has a config and weights, and no dangling links."""
    names = os.listdir(snapshot)
    intact = all(os.path.exists(os.path.join(snapshot, name)) for name in names)
    return intact and "config.json" in names and any(name.endswith(WEIGHTS) for name in names)


def _encoded(facts: HubFacts) -> Dict[str, Any]:
    answer: Dict[str, Any] = encode(facts)
    return answer
