"""Run the payload's verbs in the project's interpreter, with its packages and the job's environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any, Dict, Mapping, Sequence

from remote.payload.processes.variables import REFERENCE, expand_variables
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.regular import read_regular

OF_HUB = {
    *("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "XDG_CACHE_HOME", "NO_PROXY"),
    *("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY"),
    *("HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT"),
}
"""Variables that are passed to huggingface_hub, in upper or lower case. The client does not send their values."""
REDIRECTS = {
    *("HF_ENDPOINT", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"),
}
"""The variables that decide, in upper or lower case, which server gets a request to the hub, or can read it."""
TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
TOKEN_FILE = "token"
HUB_TOKEN = re.compile(rb"hf_[A-Za-z0-9_]{1,200}")
MAX_TOKEN_FILE = 4096


def job_environment(extra: Mapping[str, str]) -> Dict[str, str]:
    """Return this agent's environment, updated with `extra`, in which `~` and `$NAME` are expanded."""
    merged = {**os.environ, **expand_variables(extra)}
    merged["PYTHONDONTWRITEBYTECODE"] = "1"
    return merged


def ask_python(
    python: str,
    payload: str,
    verb: str,
    request: Mapping[str, Any],
    environment: Mapping[str, str],
    timeout_s: float,
    *,
    launcher: Sequence[str] = (),
) -> Dict[str, Any]:
    """Run `python payload.pyz VERB` with the request on stdin, and return its answer. Raises Refusal if that fails.

    `launcher` is a command prefix, such as that of srun.
    """
    try:
        done = subprocess.run(
            [*launcher, python, payload, verb],
            input=json.dumps(dict(request)).encode(),
            capture_output=True,
            env=job_environment(environment),
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _unusable(python, f"no answer within {timeout_s:.0f} s")
    except OSError as error:
        raise _unusable(python, error.strerror or str(error))
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _unusable(python, lines[-1] if lines else f"exit status {done.returncode} without output") from None
    return answer if isinstance(answer, dict) else {}


def ask_hub_client(
    python: str, payload: str, request: Mapping[str, Any], environment: Mapping[str, str], timeout_s: float
) -> Dict[str, Any]:
    """Run the verb `hub` as `ask_python` does, with those variables of the job's environment that concern the hub.

    Other variables, such as PYTHONPATH, LD_PRELOAD and OPENSSL_CONF, could make the interpreter load code. `plan` must
    not execute code of the project, and with `--host local` it runs on the laptop. If a variable of the environment
    sends the request to another server, the client sends no token, except for a token that this environment contains.
    An answer with a fault then names the variable under the key `withheld`.
    """
    of_hub = {name: value for name, value in environment.items() if _concerns_hub(name, value)}
    redirect = redirect_of(of_hub)
    if not redirect:
        return ask_python(python, payload, "hub", request, {**of_hub, **hub_tokens(environment)}, timeout_s)
    given = next((value for value in _tokens_of(environment).values() if value.strip() and "$" not in value), None)
    of_hub["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"
    answer = ask_python(python, payload, "hub", {**request, "token": given or False}, of_hub, timeout_s)
    if given is None and "fault" in answer:
        message = f"{answer.get('message', '')}; the host's token was not sent, because the config sets {redirect}"
        answer.update(message=message, withheld=redirect)
    return answer


def _concerns_hub(name: str, value: str) -> bool:
    """Return True for a variable of the hub client that cannot make it send a file or a variable of the host."""
    return name.upper() in OF_HUB or (name.upper() in REDIRECTS and "$" not in value)


def _tokens_of(environment: Mapping[str, str]) -> Dict[str, str]:
    return {name: environment[name] for name in TOKENS if name in environment}


def hub_tokens(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables of the job's environment that select a token for the hub.

    A config could otherwise send any variable of the host, or any file named `token`, as a token. A value with `$NAME`
    is left out, unless NAME is a variable for tokens of the hub. If the config moves the folder of the hub client, the
    client reads the token file in the host's own folder, unless the other file has a token in the form of the hub.
    """
    tokens = {name: value for name, value in _tokens_of(environment).items() if _names_only_tokens(value)}
    moved, own = hub_home(job_environment(environment)), hub_home(os.environ)
    if moved != own and not _has_hub_token(os.path.join(moved, TOKEN_FILE)):
        tokens["HF_TOKEN_PATH"] = os.environ.get("HF_TOKEN_PATH") or os.path.join(own, TOKEN_FILE)
    return tokens


def _names_only_tokens(value: str) -> bool:
    names = [plain or braced for plain, braced in REFERENCE.findall(value)]
    return all(name in TOKENS for name in names)


def _has_hub_token(path: str) -> bool:
    try:
        return HUB_TOKEN.fullmatch(read_regular(path, MAX_TOKEN_FILE, follow=True).strip()) is not None
    except OSError:
        return False


def hub_home(env: Mapping[str, str]) -> str:
    """Return HF_HOME, or huggingface_hub's default."""
    caches = env.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.expanduser(env.get("HF_HOME") or os.path.join(caches, "huggingface"))


def redirect_of(environment: Mapping[str, str]) -> str:
    """Return the variable that sends requests to the hub to a server that the host itself does not use, or ""."""
    redirects = (name for name in environment if name.upper() in REDIRECTS)
    return next((name for name in redirects if environment[name] != os.environ.get(name)), "")


def _unusable(python: str, why: str) -> Refusal:
    return Refusal("interpreter", f"{python}: {why}", where=python, exit_code=ExitCode.ENVIRONMENT)
