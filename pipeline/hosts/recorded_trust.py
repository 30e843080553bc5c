"""What the record of a run keeps of the user's trust in its host."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.new_names import line_of
from pipeline.hosts.pinned_keys import destination_of, pinned_lines
from pipeline.hosts.trust import trusted_address
from pipeline.records.host_trust import HostTrust

KEYS = ("known_hosts", "host_key")


def trust_in(host: LoadedHost, environment: Mapping[str, str] | None = None) -> HostTrust:
    """Return the trust that later commands with the run may use without the host file."""
    environment = os.environ if environment is None else environment
    address = trusted_address(host, environment)
    chosen = (*(KEYS if address.trusts_keys else ()), *(("workdir",) if address.trusts_owners else ()))
    return HostTrust(
        chosen, pinned_lines(host, environment), line_of(host, environment), destination_of(host, environment)
    )
