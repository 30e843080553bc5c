"""Who belongs to the group of a folder: its members, the accounts whose primary group it is, and its other entries."""

from __future__ import annotations

import grp
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from remote.errors import ContainerUnavailable, HostUnfit
from remote.link.bootstrap import PYTHON
from remote.link.container import Container
from remote.link.reach import open_host
from tests.remote.link.container_engine import calls, home, titan, tools, write_engine
from tests.remote.link.test_folders_above import another_user

__all__ = ["another_user", "home"]

ME, HEAD = 2001, 2002
OTHERS_MAY_WRITE = PYTHON[PYTHON.index("def read_text") : PYTHON.index("def in_container")]
ROOT = "root:x:0:0:root:/root:/bin/sh"
DAEMON = "daemon:x:1:1::/:/bin/false"
ALICE = "alice:x:2001:2001::/:/bin/sh"
THE_HEAD = "head:x:2002:2002::/:/bin/sh"
ACCOUNTS = (ROOT, DAEMON, ALICE, THE_HEAD)
GROUPS = ("root:x:0:", "alice:x:2001:", "head:x:2002:", "lab:x:3000:")


class Database:
    """The modules pwd and grp with these entries. `unlisted` accounts are found by their id only, as with sssd."""

    def __init__(self, accounts: Sequence[str], groups: Sequence[str], unlisted: Sequence[str] = ()) -> None:
        self._accounts = [_account(row) for row in accounts]
        self._by_uid = {one.pw_uid: one for one in reversed((*self._accounts, *map(_account, unlisted)))}
        self._groups = [_group(row) for row in groups]
        self.lists = 0

    def getpwall(self) -> list[pwd.struct_passwd]:
        self.lists += 1
        return self._accounts

    def getpwuid(self, uid: int) -> pwd.struct_passwd:
        return self._by_uid[uid]

    def getgrall(self) -> list[grp.struct_group]:
        return self._groups

    def getgrgid(self, gid: int) -> grp.struct_group:
        return {one.gr_gid: one for one in reversed(self._groups)}[gid]


def _account(row: str) -> pwd.struct_passwd:
    name, password, uid, gid, *rest = row.split(":")
    return pwd.struct_passwd((name, password, int(uid), int(gid), *rest))


def _group(row: str) -> grp.struct_group:
    name, password, gid, members = row.split(":")
    return grp.struct_group((name, password, int(gid), members.split(",") if members else []))


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the function of the bootstrap program as the user `ME`, for a mode, a database, an owner and a group."""

    def judged(mode: int, database: Database, uid: int = ME, gid: int = ME, **system: str) -> bool:
        texts = {"/etc/nsswitch.conf": system.get("names", ""), "/etc/passwd": system.get("passwd", ROOT)}
        variables = {"HALFSTEP_CONTAINER": system["container"]} if "container" in system else {}
        namespace: dict[str, Any] = {"me": ME, "accounts": [], "os": SimpleNamespace(environ=variables)}
        monkeypatch.setitem(sys.modules, "pwd", database)
        monkeypatch.setitem(sys.modules, "grp", database)
        exec(OTHERS_MAY_WRITE, namespace)
        namespace["read_text"] = texts.__getitem__
        folder = SimpleNamespace(st_mode=0o40000 | mode, st_uid=uid, st_gid=gid)
        results = {namespace["others_may_write"](folder) for _ in range(3)}
        monkeypatch.undo()
        assert database.lists <= 1  # the list of a directory service can be long
        return results.pop()

    return judged


@pytest.mark.parametrize(
    ("accounts", "groups", "owner", "group", "shared"),
    [
        (ACCOUNTS, GROUPS, ME, ME, False),
        (ACCOUNTS, GROUPS, HEAD, HEAD, False),
        (ACCOUNTS, GROUPS, 0, 0, False),
        (ACCOUNTS, GROUPS, ME, 3000, True),
        ((*ACCOUNTS, "bob:x:2003:3000::/:/bin/sh"), GROUPS, ME, ME, False),
        ((*ACCOUNTS, "bob:x:2003:2001::/:/bin/sh"), GROUPS, ME, ME, True),
        ((*ACCOUNTS, "web:x:33:2001::/:/usr/sbin/nologin"), GROUPS, ME, ME, True),
        ((*ACCOUNTS, "bob:x:2003:2002::/:/bin/sh"), GROUPS, HEAD, HEAD, True),
        ((*ACCOUNTS, "operator:x:11:0::/:/sbin/nologin"), GROUPS, 0, 0, True),
        ((*ACCOUNTS, "toor:x:0:0::/root:/bin/sh"), GROUPS, 0, 0, False),
        ((*ACCOUNTS, "nobody:x:65534:65534::/:/bin/sh"), (*GROUPS, "nobody:x:65534:"), 65534, 65534, True),
        ((*ACCOUNTS, "alias:x:2001:2001::/:/bin/sh"), GROUPS, ME, ME, False),
        (ACCOUNTS, ("root:x:0:", "alice:x:2001:alice,root"), ME, ME, False),
        (ACCOUNTS, ("root:x:0:", "alice:x:2001:bob"), ME, ME, True),
        (ACCOUNTS, (*GROUPS, "friends:x:2001:bob"), ME, ME, True),
        (ACCOUNTS, ("root:x:0:bob", *GROUPS[1:]), 0, 0, True),
    ],
)
def test_SE_01_a_folder_is_shared_if_another_account_has_its_group(
    judge: Any, accounts: Sequence[str], groups: Sequence[str], owner: int, group: int, shared: bool
) -> None:
    assert judge(0o775, Database(accounts, groups), owner, group) is shared
    assert judge(0o755, Database(accounts, groups), owner, group) is False
    assert judge(0o777, Database(accounts, groups), owner, group) is True


@pytest.mark.parametrize(
    ("listed", "unlisted", "owner"),
    [
        ((ROOT, DAEMON), (ALICE,), ME),
        ((ROOT, ALICE), (THE_HEAD,), HEAD),
        ((DAEMON,), ACCOUNTS, ME),
        (ACCOUNTS[:2], (), ME),
    ],
)
def test_SE_01_the_write_permission_of_a_group_is_refused_if_the_accounts_cannot_be_listed(
    judge: Any, listed: Sequence[str], unlisted: Sequence[str], owner: int
) -> None:
    assert judge(0o775, Database(listed, GROUPS, unlisted), owner, owner) is True


@pytest.mark.parametrize(
    ("system", "shared"),
    [
        ({"names": "passwd: files systemd\n"}, False),
        ({"names": "#passwd: sss\n\tpasswd:\tcompat # and sss\ngroup: files sss\n"}, False),
        ({"names": "passwd: files sss\n"}, True),
        ({"names": "passwd: files\npasswd: winbind\n"}, True),
        ({"names": "passwd: compat\n", "passwd": f"{ROOT}\n+@lab::::::\n"}, True),
        ({"container": "docker halfstep-1 sha256:1d"}, True),
    ],
)
def test_SE_01_the_write_permission_of_a_group_is_refused_if_other_accounts_may_exist(
    judge: Any, system: dict[str, str], shared: bool
) -> None:
    assert judge(0o775, Database(ACCOUNTS, GROUPS), **system) is shared
    assert judge(0o755, Database(ACCOUNTS, GROUPS), **system) is False


def test_the_accounts_are_listed_only_for_a_folder_that_its_group_may_write_to(judge: Any) -> None:
    lists = {}
    for mode in (0o700, 0o755, 0o775):
        database = Database(ACCOUNTS, GROUPS)
        judge(mode, database)
        lists[mode] = database.lists
    assert lists == {0o700: 0, 0o755: 0, 0o775: 1}


@pytest.mark.root
@pytest.mark.parametrize(
    ("accounts", "groups", "shared"),
    [
        ((ROOT, DAEMON), GROUPS, False),
        ((ROOT, DAEMON, "operator:x:11:0::/:/sbin/nologin"), GROUPS, True),
        ((ROOT, "toor:x:0:0::/root:/bin/sh"), GROUPS, False),
        ((DAEMON,), GROUPS, True),
        ((), GROUPS, True),
        ((ROOT, DAEMON), ("root:x:0:bob",), True),
        ((ROOT, DAEMON), (*GROUPS, "wheel:x:0:bob"), True),
        ((ROOT, DAEMON), (), True),
    ],
)
def test_SE_01_no_container_is_created_below_a_folder_whose_group_another_account_has(
    home: Path, tmp_path: Path, accounts: Sequence[str], groups: Sequence[str], shared: bool
) -> None:
    engine = write_engine(tmp_path, "docker")
    write_getent(tmp_path, accounts, groups)
    home.chmod(0o775)
    host = open_host(titan(Container("torch"), f"{home}/me/halfstep"))
    if shared:
        with pytest.raises(ContainerUnavailable, match=f"{home} is writable by other users"):
            host.probe(["true"])
        assert not (engine.parent / "state/calls").exists()
    else:
        with pytest.raises(HostUnfit, match=f"{home} on titan is writable by other users") as caught:
            host.probe(["true"])  # a container does not show who belongs to the group
        assert calls(engine)
        assert f"chmod +t {home}" in caught.value.hint
        home.chmod(0o1775)
        assert host.probe(["id"]).ok
    host.close()


def write_getent(folder: Path, accounts: Sequence[str], groups: Sequence[str]) -> None:
    """Let `getent passwd` and `getent group` print these entries, or the first entry with a name or id."""
    program = tools(folder) / "getent"
    program.unlink()
    (folder / "passwd").write_text("".join(f"{row}\n" for row in accounts))
    (folder / "group").write_text("".join(f"{row}\n" for row in groups))
    program.write_text(
        f'#!/bin/sh\n[ -n "$2" ] || exec cat {folder}/"$1"\n'
        f'row=$(grep -m1 -E "^($2:|[^:]*:[^:]*:$2:)" {folder}/"$1") || exit 2\necho "$row"\n'
    )
    program.chmod(0o755)
