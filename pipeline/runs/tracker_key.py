"""Find out before the training starts whether the script's calls of Weights & Biases will have an API key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fixers.setup.imported_modules import files_of_script
from fixers.setup.started_files import scripts_of_shell, shell_scripts_of
from fixers.setup.wandb_uses import WandbUse, wandb_uses
from pipeline.judgements.trackers import has_wandb_key, judge_wandb_uses
from pipeline.runs.search_path import project_folders
from pipeline.runs.secrets import secrets_of
from pipeline.runs.view import View
from remote.host import Host
from remote.protocol.findings import Report

# Prints True if wandb finds a key of the user on the host, or a mode without one. The key is not printed.
ASK = (
    "import netrc, os\n"
    "found = any(os.environ.get(name) for name in ('WANDB_API_KEY', 'WANDB_MODE', 'WANDB_DISABLED'))\n"
    "for path in (os.environ.get('NETRC'), '~/.netrc', '~/_netrc'):\n"
    "    try:\n"
    "        hosts = netrc.netrc(os.path.expanduser(path)).hosts if path else ()\n"
    "    except (OSError, ValueError, netrc.NetrcParseError):\n"
    "        hosts = ()\n"
    "    found = found or any('wandb' in host for host in hosts)\n"
    "print(found)\n"
)
TIMEOUT_S = 30.0


def wandb_key(host: Host, view: View) -> Report:
    """Return a finding if the script uses Weights & Biases, and neither the job nor the host has an API key.

    The host is asked only if the job has no key. If the host cannot answer, the report is empty.
    """
    config, env = view.config, {**view.host.config.env, **view.config.env}
    command = config.command or ()
    if not command or has_wandb_key(env, secrets_of(view.host.config, config)) or view.survey.interpreter.error:
        return Report()
    uses = _uses(view, command, project_folders(env))
    if not uses or _is_logged_in(host, view, env):
        return Report()
    return Report((judge_wandb_uses(uses),))


def _uses(view: View, command: Sequence[str], folders: Sequence[str]) -> tuple[WandbUse, ...]:
    """Return the uses in the script of the command. Those in scripts that a shell script starts are uncertain."""
    script, files = files_of_script(view.scan, command, folders)
    if script or any(b"WANDB_" in text for _, text in shell_scripts_of(view.scan, command)):
        return wandb_uses(script, files, command)
    started = [("python", each) for each in scripts_of_shell(view.scan, command)]
    found = [wandb_uses(*files_of_script(view.scan, each, folders), each) for each in started]
    return tuple(replace(use, certain=False) for uses in found for use in uses)


def _is_logged_in(host: Host, view: View, env: Mapping[str, str]) -> bool:
    """Return True unless the host has no key of the user. A server of the user's own may need none."""
    answer = host.probe([view.survey.interpreter.path, "-I", "-c", ASK], timeout_s=TIMEOUT_S)
    return not answer.ok or answer.stdout.strip() != b"False" or bool(env.get("WANDB_BASE_URL"))
