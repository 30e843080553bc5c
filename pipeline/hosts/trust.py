"""Ask the user to confirm a project's host file that redirects a name, trains on the laptop, runs an image, or requests
secrets."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.config.find import is_path, is_shipped_host
from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import address_of
from pipeline.hosts.local_uses import container_uses, local_uses
from pipeline.hosts.new_names import keep_new_names, line_of, machine_names, was_new
from pipeline.hosts.redirected import redirected
from pipeline.hosts.ssh_names import CONFIGURATION, SshNames
from pipeline.records.consents import is_confirmed, keep_consent
from pipeline.records.host_trust import OLDER
from remote.errors import BadUsage, DiskFull, HostFileUntrusted
from remote.link.address import LOCAL, Address, canonical, is_this_machine, parse_hop
from remote.link.hosts_file import listed_addresses
from remote.link.prompter import Prompter, confirms
from remote.link.ssh.aliases import file_of_alias, list_aliases
from remote.link.ssh.route import ResolvedHop
from remote.project.user_folder import user_file
from remote.protocol.hidden import hide
from remote.protocol.shell import shell_command
from remote.protocol.text import one_line

OWNERS = "has a workdir below folders of other users"
"""The reason of a confirmation that `pipeline hosts check` requests after it has seen the folders."""


def require_trust(host: LoadedHost, prompter: Prompter | None, environment: Mapping[str, str] | None = None) -> None:
    """Ask the user to confirm the host file, if a confirmation is required.

    Raises HostFileUntrusted. The confirmation is stored in the user's configuration folder, never in the project. It is
    valid for these settings at this path and for the reasons that the question stated: after a change, and for another
    reason, the user must confirm again. If there is no terminal, a file that reaches one of the user's machines under
    another name, or this machine by an address, needs no confirmation, so that scripts can run `pipeline run` in the
    user's own project.
    """
    environment = os.environ if environment is None else environment
    if host.path is None or is_shipped_host(host.path):
        return
    names = SshNames(environment)
    reasons = list(_reasons(host, names))
    at_terminal = list(_reasons_at_terminal(host, names))
    if at_terminal and prompter is not None and prompter.can_confirm():
        reasons += at_terminal
        at_terminal = []
    _confirm(host, reasons, prompter, environment)
    if not at_terminal:
        with contextlib.suppress(BadUsage, DiskFull):
            keep_new_names(host, names)


def local_confirmation(
    host: LoadedHost, prompter: Prompter | None, environment: Mapping[str, str] | None = None
) -> Callable[[ResolvedHop], None] | None:
    """Return the check for a host whose SSH connection turns out to lead to this machine.

    DNS may resolve any name in a project's host file to an address of this machine. The check gets the first hop, and
    raises HostFileUntrusted unless the user confirms the file. If the port is not 22, it is usually a tunnel: then a
    name of this machine, such as 127.0.0.1, is accepted, and so is a name that ~/.ssh/config lists or replaces. The
    host file of a recorded run counts too; nobody is asked if the record is of an older version. Without a host file,
    None is returned.
    """
    environment = os.environ if environment is None else environment
    if not (line := line_of(host, environment)):
        return None
    asked = None if line == OLDER else prompter

    def check(hop: ResolvedHop) -> None:
        address, name = address_of(host), hop.alias
        given = (address.host, *(parse_hop(jump).host for jump in address.proxy_jump))
        if name not in given:
            return
        users = canonical(hop.host) != canonical(name) or name in list_aliases(environment)
        # The file's own name is no exception: whoever wrote the file chose it.
        if hop.port == 22 or not (users or is_this_machine(name) or listed_addresses(canonical(name))):
            reasons = [_reaches_here(name), *container_uses(host), *(local_uses(host) if hop.is_target else ())]
            _confirm(host, reasons, asked, environment)

    return check


def _confirm(
    host: LoadedHost, reasons: Sequence[str], prompter: Prompter | None, environment: Mapping[str, str]
) -> None:
    """Ask the user to confirm the host file unless every reason was confirmed, and store the confirmation.

    Raises HostFileUntrusted.
    """
    kept, line = trusted_hosts(environment), line_of(host, environment)
    unconfirmed = [reason for reason in reasons if not is_confirmed(kept, line, reason)]
    if not unconfirmed or is_confirmed(kept, line):
        return
    recorded = f"{line.partition(' ')[2] or 'the host file'}, as the run recorded it,"
    subject = f"{host.path or recorded} {' and '.join(reasons)}"
    if not confirms(prompter, subject, "Do you trust this file?"):
        check = shell_command("pipeline hosts check {}", host.argument or host.name)
        raise HostFileUntrusted(
            f"{one_line(subject)}, and you have not confirmed that; nothing was sent",
            where=str(host.path or host.name),
            hint=f"read the file, then confirm it at a terminal with: {check}",
        )
    for reason in unconfirmed:
        keep_consent(kept, line, reason)


def is_own_name(host: LoadedHost) -> bool:
    """Return True if the user's own ssh or hosts files know the host's name, and it leads to the same machine without
    the host file."""
    names = SshNames(os.environ)
    known = host.source.shadows or _place_of(host, host.name, names, host.config.port)
    return host.name != LOCAL and bool(known) and not redirected(host, known, names)


def keep_trust(host: LoadedHost, environment: Mapping[str, str] | None = None) -> None:
    """Store that the user chose every setting of the host file, as it is now. No question about it remains."""
    environment = os.environ if environment is None else environment
    keep_consent(trusted_hosts(environment), line_of(host, environment))


def keep_trust_in_owners(host: LoadedHost) -> None:
    """Store that the folders above the workdir of this host file may belong to other users of the host."""
    keep_consent(trusted_hosts(os.environ), line_of(host), OWNERS)


def trusted_address(host: LoadedHost, environment: Mapping[str, str] | None = None) -> Address:
    """Return the host's address for a connection. From now on, the values of its secrets are masked in messages.

    If the user chose the workdir, its parent folders may belong to other users of the host. If the user chose
    `known_hosts:` or `host_key:`, it replaces the user's own known_hosts. If only a project's host file sets it, the
    user's own known_hosts applies too.
    """
    environment = os.environ if environment is None else environment
    hide(environment.get(name, "") for name in host.config.secrets)
    owners, keys = _chose_workdir(host, environment), _chose_keys(host, environment)
    return replace(address_of(host), trusts_owners=owners, trusts_keys=keys)


def can_trust_owners(host: LoadedHost) -> bool:
    """Return True if the parent folders of the workdir may belong to other users once the host file is confirmed."""
    return host.path is not None and not is_shipped_host(host.path) and host.config.workdir != Address.workdir


def _chose_workdir(host: LoadedHost, environment: Mapping[str, str]) -> bool:
    """Return True if the workdir is not the default, and was set by `--set` or by a host file confirmed for that."""
    if host.config.workdir == Address.workdir:
        return False
    if "workdir" in host.chosen:
        return True
    if not can_trust_owners(host):
        return False
    kept, line = trusted_hosts(environment), line_of(host, environment)
    return is_confirmed(kept, line) or is_confirmed(kept, line, OWNERS)


def _chose_keys(host: LoadedHost, environment: Mapping[str, str]) -> bool:
    """Return True if the user set `host_key` (or `known_hosts`, if `host_key` is not set).

    The user sets it on the command line, or in a host file that `keep_trust` stored.
    """
    name = "host_key" if host.config.host_key else "known_hosts"
    if name in host.chosen:
        return True
    pinned = host.config.host_key or host.known_hosts_data
    if host.path is None or pinned is None:
        return False
    return is_confirmed(trusted_hosts(environment), line_of(host, environment))


def trusted_hosts(environment: Mapping[str, str]) -> Path:
    """Return the file that lists the confirmed host files. Each line has a digest, a path and the confirmed reason.

    A line without a reason is valid for every reason.
    """
    return user_file("trusted_hosts", environment)


def _reasons(host: LoadedHost, names: SshNames) -> Iterator[str]:
    """Yield the reasons for a confirmation as phrases after the file's name, such as "trains on the local machine"."""
    if (meaning := meaning_without_file(host, names)) and (reached := redirected(host, meaning, names)):
        yield reached
    elif not meaning and (surprise := _contradicts_name(host)):
        yield surprise
    if meaning or _users_machine(host, names):
        yield from container_uses(host)
    if address_of(host).is_local:
        yield from local_uses(host)
    if secrets := host.file_values.get("secrets"):
        yield f"requests {', '.join(map(str, secrets))} from the local environment for {host.config.host}"


def _contradicts_name(host: LoadedHost) -> str:
    """Return a phrase if a file not named `local` selects this machine, or `local` selects another one, else ""."""
    address = address_of(host)
    if host.name == LOCAL:
        return "" if address.is_local else f"leads to {address.host}, not the local machine"
    return "trains on the local machine" if address.is_local else ""


def _reasons_at_terminal(host: LoadedHost, names: SshNames) -> Iterator[str]:
    """Yield the reasons that require a confirmation only at a terminal, as _reasons does.

    local_confirmation states the same reasons if the connection reaches this machine at port 22.
    """
    name = address_of(host).host
    uses = [] if name == LOCAL or not is_this_machine(name) else list(local_uses(host))
    if reached := _unnamed_machine(host, names) or (_reaches_here(name) if uses else ""):
        yield reached
    yield from uses


def _reaches_here(name: str) -> str:
    return f"reaches the local machine as {name}"


def _unnamed_machine(host: LoadedHost, names: SshNames) -> str:
    """Return a phrase if the file reaches a machine of the user that has another name than the file, else "".

    Both the target and the gateways are checked.
    """
    return "" if meaning_without_file(host, names) else _users_machine(host, names)


def _users_machine(host: LoadedHost, names: SshNames) -> str:
    """Return a phrase for the first machine of the user that the host file reaches, or ""."""
    for name, port in list(machine_names(host))[1:]:
        if is_this_machine(name):
            return _reaches_here(name)
        if found := _place_of(host, name, names, port):
            return f"reaches {name} of {found}"
    return ""


def _place_of(host: LoadedHost, name: str, names: SshNames, port: int | None) -> str:
    """Return the file of the user or of this machine that contains the host name, or "" if no file contains it.

    The result is CONFIGURATION if ssh has settings of its own for the name without a line that names it, as with
    `Match exec`. A name that known_hosts did not contain when the host file was accepted is not searched for there.
    """
    if file := file_of_alias(name, names.environment):
        return file
    if not was_new(host, name, names.environment, port) and (known := names.known_hosts_file(name, port)):
        return known
    if names.has_settings(name):
        return CONFIGURATION
    return "/etc/hosts" if any(map(listed_addresses, {name, canonical(name)})) else ""


def meaning_without_file(host: LoadedHost, names: SshNames) -> str:
    """Return a phrase for the machine that the host's name would select without the host file, or "" for no machine.

    The name may be an alias of ssh, a network name or address, or a name in known_hosts or /etc/hosts. Only ssh queries
    DNS, if CanonicalizeHostname is set: a query takes time. If --host is the path of a host file, the file's name
    without .yaml is used, but does not count as a network name. A hashed name in known_hosts is found with the file's
    port.
    """
    name = host.name
    if host.source.shadows:
        return f"the alias {name} of {host.source.shadows}"
    if name == LOCAL:
        return ""
    if not is_path(host.argument or name) and ("." in name or ":" in name):
        return f"the network address {name}"
    found = _place_of(host, name, names, host.config.port)
    return f"{name} in {found}" if found else ""
