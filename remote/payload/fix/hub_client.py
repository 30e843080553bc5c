"""Run the project's huggingface_hub so that variables of a config can select neither files nor secrets for it.

`plan` queries the hub before anybody has confirmed anything, with `--host local` on the laptop. The client reads and
writes files of the user in many places: tokens and records in HF_HOME, logins in ~/.netrc, caches. So it runs with an
empty private folder as its home, and sends only the token that is selected here. Packages of `pip install --user` are
still found.
"""

from __future__ import annotations

import os
import re
import site
import tempfile
from typing import Any, Dict, Mapping, Tuple

from remote.payload.probes.compute_node import Place
from remote.payload.probes.project_python import ask_python, job_environment
from remote.payload.processes.variables import REFERENCE
from remote.protocol.regular import read_regular

OF_HUB = {
    *("NO_PROXY", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_XET"),
    *("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT"),
}
"""Variables that are passed to huggingface_hub, in upper or lower case. None of them names a file."""
REDIRECTS = {
    *("HF_ENDPOINT", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"),
}
"""The variables, in upper or lower case, that decide which server gets or can read a request to the hub."""
FOLDERS = (
    *("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "XDG_CACHE_HOME"),
    *("HF_XET_CACHE", "HF_ASSETS_CACHE", "HUGGINGFACE_ASSETS_CACHE"),
)
NO_OTHER_FILES = {
    "HF_TOKEN": "",
    "HUGGING_FACE_HUB_TOKEN": "",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "NETRC": os.devnull,
    # Clients before 0.23 stored larger files in the cache, with a link to them in the folder of the download.
    "HF_HUB_LOCAL_DIR_AUTO_SYMLINK_THRESHOLD": str(2**50),
}
TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
TOKEN_FILE = "token"
HUB_TOKEN = re.compile(r"hf_[A-Za-z0-9_]{1,200}")
ANY_TOKEN = re.compile(r"[!-~]{1,4096}")
MAX_TOKEN_FILE = 4096


def ask_hub_client(
    python: str, payload: str, request: Mapping[str, Any], environment: Mapping[str, str], timeout_s: float
) -> Dict[str, Any]:
    """Run the verb `hub` as `ask_python` does, with those variables of the job's environment that concern the hub.

    Other variables, such as PYTHONPATH, LD_PRELOAD and OPENSSL_CONF, could make the interpreter load code. If a
    variable of the environment sends the request to another server, the client sends no token, except for a token that
    this environment contains. An answer with a fault then names the variable under the key `withheld`.
    """
    of_hub = {name: value for name, value in environment.items() if _concerns_hub(name, value)}
    redirect = redirect_of(of_hub)
    given = next((value for value in _tokens_of(environment).values() if value.strip() and "$" not in value), "")
    token = given if redirect else hub_token(environment)[0]
    with tempfile.TemporaryDirectory(prefix="halfstep-hub-") as private:
        folders = {name: os.path.join(private, name.lower()) for name in FOLDERS}
        alone = {**of_hub, **folders, **NO_OTHER_FILES, "HOME": private, "PYTHONUSERBASE": site.getuserbase()}
        alone.update({"NETRC": os.path.join(private, "netrc"), "HF_TOKEN_PATH": os.path.join(private, TOKEN_FILE)})
        asked = {**request, "token": token or False, "redirected": bool(redirect)}
        answer = ask_python(python, Place(payload), "hub", asked, alone, timeout_s)
    if redirect and not given and "fault" in answer:
        message = f"{answer.get('message', '')}; the host's token was not sent, because the config sets {redirect}"
        answer.update(message=message, withheld=redirect)
    return answer


def _concerns_hub(name: str, value: str) -> bool:
    """Return True for a variable of the hub client that cannot make it send a file or a variable of the host."""
    return name.upper() in OF_HUB | REDIRECTS and "$" not in value


def _tokens_of(environment: Mapping[str, str]) -> Dict[str, str]:
    return {name: environment[name] for name in TOKENS if name in environment}


def hub_token(environment: Mapping[str, str]) -> Tuple[str, str]:
    """Return the token for the hub, and the variable or file that contains it. Both are "" if there is none.

    Without the following rules, a config could send any variable of the host, or any file named `token`, as a token. A
    value with `$NAME` is left out, unless NAME is a variable for tokens of the hub. If the config moves the folder of
    the hub client, the token file there is read first, and used only if it has a token in the form of the hub
    (`hf_...`). If it has none, the token file in the host's own folder is read.
    """
    given = job_environment({name: value for name, value in _tokens_of(environment).items() if _names_tokens(value)})
    for name in TOKENS:
        if given.get(name, "").strip() and "$" not in given[name]:
            return given[name].strip(), name
    moved, own = hub_home(job_environment(environment)), hub_home(os.environ)
    files = [(os.path.expanduser(os.environ.get("HF_TOKEN_PATH") or os.path.join(own, TOKEN_FILE)), ANY_TOKEN)]
    if moved != own:
        files.insert(0, (os.path.join(moved, TOKEN_FILE), HUB_TOKEN))
    for path, form in files:
        if token := _token_in(path, form):
            return token, path
    return "", ""


def _names_tokens(value: str) -> bool:
    names = [plain or braced for plain, braced in REFERENCE.findall(value)]
    return all(name in TOKENS for name in names)


def _token_in(path: str, form: re.Pattern[str]) -> str:
    try:
        text = read_regular(path, MAX_TOKEN_FILE, follow=True).decode("ascii", "replace").strip()
    except OSError:
        return ""
    return text if form.fullmatch(text) else ""


def hub_home(env: Mapping[str, str]) -> str:
    """Return HF_HOME, or huggingface_hub's default."""
    caches = env.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.expanduser(env.get("HF_HOME") or os.path.join(caches, "huggingface"))


def redirect_of(environment: Mapping[str, str]) -> str:
    """Return the variable that sends requests to the hub to a server that the host itself does not use, or ""."""
    redirects = (name for name in environment if name.upper() in REDIRECTS)
    return next((name for name in redirects if environment[name] != os.environ.get(name)), "")
