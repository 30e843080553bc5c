"""`pipeline hosts`: list hosts; `pipeline hosts check NAME`: test connection, login and machine of one host."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from fixers.setup.environment import is_requested
from pipeline.config.find import is_shipped_config, list_configs, list_hosts
from pipeline.config.hosts import LoadedHost, load_host
from pipeline.config.load import load_config
from pipeline.config.read_limit import NOT_READ, beyond_limit
from pipeline.config.shipped import place_of
from pipeline.hosts.trust import (
    can_trust_owners,
    keep_trust_in_owners,
    local_confirmation,
    require_trust,
    trusted_address,
)
from pipeline.messages.hints import complete_hint
from pipeline.messages.outcome import Outcome
from pipeline.show.plain import headed
from pipeline.show.screen import Screen
from remote.errors import BadUsage, HalfstepError
from remote.link.prompter import Prompter, confirms
from remote.operations.inspection import Inspection, Row, State, inspect_host
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.shell import shell_command

PINNED = re.compile(r"host\.host_key=(\S+)")
CREATE = "fixers: {environment: create}"
LABEL_WIDTH = 12
SEVERITIES = {State.FAILED: Severity.ERROR, State.WARNING: Severity.WARNING}


def hosts(action: str = "", name: str = "", as_json: bool = False) -> int:
    """List all host files. With `check NAME`, test one host or ssh alias."""
    screen = Screen(as_json=as_json)
    if action not in ("", "check"):
        # A single unknown word is probably a host; the first of two words is probably a misspelt `check`.
        hint = shell_command("pipeline hosts check {}", name or action)
        raise BadUsage(f"unknown action {action!r}; `pipeline hosts` lists all hosts", hint=hint)
    outcome = _checked(screen, name) if action == "check" else _listed(screen)
    screen.closing(outcome)
    return outcome.exit_code


def _listed(screen: Screen) -> Outcome:
    rows, cwd = [], Path.cwd()
    found = list_hosts(cwd)
    beyond = beyond_limit(found.values())
    for name, path in found.items():
        if path in beyond:
            rows.append((name, f"({NOT_READ})", str(path)))
            continue
        try:
            host = load_host(name, cwd)
            target, file = host.config.host, str(host.path or "~/.ssh/config")
        except HalfstepError as error:
            target, file = f"({error.message})", str(path)
        rows.append((name, target, file))
    if not screen.as_json:
        shown = [(name, target.replace(f"{file}: ", ""), place_of(Path(file), cwd)) for name, target, file in rows]
        screen.table(("host", "reaches", "file"), shown)
        screen.line("Every Host alias of ~/.ssh/config is a host, too.")
    return Outcome("hosts", more={"hosts": [{"name": n, "reaches": t, "file": f} for n, t, f in rows]})


def _checked(screen: Screen, name: str) -> Outcome:
    if not name:
        raise BadUsage("hosts check needs a host", hint="pipeline hosts check NAME")
    host = load_host(name, Path.cwd())
    if host.note:
        screen.note(host.note)
    prompter = None if screen.as_json else screen
    require_trust(host, prompter)
    seen = check_host(host, prompter)
    if not screen.as_json:
        screen.table(("", "check", "result"), [(row.state.value, row.name, row.detail) for row in seen.rows])
    code = ExitCode(seen.exit_code)
    findings = tuple(_finding(row, host, code) for row in seen.rows if row.state in SEVERITIES)
    table = [{"check": row.name, "state": row.state.value, "detail": row.detail} for row in seen.rows]
    if not screen.as_json:  # the table already shows the messages
        for one in findings:
            labelled = [(one.check, "".join(headed(one.hint)))] if one.hint else []
            screen.labelled(labelled, LABEL_WIDTH, hints=True)
    return Outcome("hosts", code, host=name, findings=findings if screen.as_json else (), more={"checks": table})


def check_host(host: LoadedHost, prompter: Prompter | None) -> Inspection:
    """Inspect the host. If the workdir is below a folder of another user, ask the user to confirm the host file."""

    def inspected() -> Inspection:
        address = trusted_address(host)
        local, config = local_confirmation(host, prompter), host.config
        return inspect_host(address, prompter=prompter, confirm_local=local, gpus=config.gpus, card=config.card)

    seen = inspected()
    if prompter is None or not seen.owner_untrusted or not can_trust_owners(host):
        return seen
    question = f"{host.path} sets `workdir: {host.config.workdir}`. {seen.owner_untrusted}"
    if not confirms(prompter, question, "Do you trust this user and this file?"):
        return seen
    keep_trust_in_owners(host)
    return inspected()


def _finding(row: Row, host: LoadedHost, code: ExitCode) -> Finding:
    hint = complete_hint(similar_host_hint(host, code) or hint_of(row, host), host.name, "")
    return Finding(row.name.replace(" ", "-"), SEVERITIES[row.state], row.detail, host.name, hint, code)


def similar_host_hint(host: LoadedHost, code: ExitCode) -> str:
    """Return the command that checks the host with the most similar name if this host was not reached, or ""."""
    is_unknown = bool(host.similar_names) and code is ExitCode.CONNECT
    return shell_command("pipeline hosts check {}", host.similar_names[0]) if is_unknown else ""


def _project_creates_environment() -> bool:
    """Return True if a config of the project creates the environment, so that nothing has to be changed."""
    cwd = Path.cwd()
    found = list_configs(cwd)
    beyond = beyond_limit(found.values())
    for name, path in found.items():
        with contextlib.suppress(HalfstepError):
            loaded = load_config(name, cwd) if path not in beyond and not is_shipped_config(path) else None
            if loaded is not None and is_requested((loaded.config.fixers.model_extra or {}).get("environment")):
                return True
    return False


def hint_of(row: Row, host: LoadedHost) -> str:
    """Return the row's hint, or "" if a config of the project already has the setting that the hint suggests.

    If the hint would repeat this command, return how to confirm the host key instead.
    """
    if row.hint.startswith(CREATE) and _project_creates_environment():
        return ""
    if row.name != "host key" or not row.hint.startswith("pipeline hosts check"):
        return row.hint
    pinned, file = PINNED.search(row.hint), host.path or f"configs/hosts/{host.name}.yaml"
    pin = f", or pin the key in {file}:   host_key: {pinned[1]}" if pinned else ""
    return f"compare the key with the host's own key, then confirm it with y, at a terminal and without --json{pin}"
