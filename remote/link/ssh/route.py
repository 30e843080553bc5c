"""The way to a host as plain values: every machine on it, the target last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Station:
    """One SSH server to be passed or reached. `key_name` is what its key is filed under in known_hosts."""

    alias: str
    host: str
    port: int = 22
    user: str = ""
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent_socket: str | None = None
    known_hosts: tuple[str, ...] = ()
    key_name: str = ""
    host_key: str | None = None
    proxy_command: str | None = None
    connect_timeout_s: float | None = None
    accept_new: bool = False

    @property
    def where(self) -> str:
        """`user@host:port` for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}:{self.port}"


@dataclass(frozen=True)
class Route:
    """Gateways in order, then the target; and what could not be honoured on the way of finding it."""

    stations: tuple[Station, ...]
    warnings: tuple[str, ...] = ()

    @property
    def target(self) -> Station:
        return self.stations[-1]
