"""The table of operations: every row has a handler, and reading operations change nothing."""

from __future__ import annotations

import pytest

from remote.errors import RemoteFault
from remote.link.local import local_host
from remote.payload.operations import OPERATIONS


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_row_has_a_function_that_accepts_a_call(name: str) -> None:
    handler = OPERATIONS[name].handler
    assert handler.__code__.co_varnames[: handler.__code__.co_argcount] == ("call",)
    assert handler.__doc__


def test_an_operation_that_changes_something_cannot_be_called_as_a_query(tmp_path: object) -> None:
    host = local_host(str(tmp_path), keep=False)
    changing = [name for name, operation in OPERATIONS.items() if operation.changes]
    try:
        for name in changing:
            with pytest.raises(RemoteFault) as refused:
                host.ask(name, {})
            assert refused.value.kind == "read-only"
    finally:
        host.close()


def test_an_unknown_operation_is_refused_by_name(tmp_path: object) -> None:
    host = local_host(str(tmp_path), keep=False)
    try:
        with pytest.raises(RemoteFault, match=r"no\.such\.operation"):
            host.ask("no.such.operation")
    finally:
        host.close()
