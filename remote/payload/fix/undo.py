"""Everything that one setup fixer did to the host, taken back."""

from __future__ import annotations

from typing import Any, Dict

from remote.payload.fix.journal import project_of, put_back
from remote.payload.fix.marks import take_away
from remote.payload.fix.packages import take_out
from remote.payload.request.call import Call


def undo(call: Call) -> Dict[str, Any]:
    """Packages are out, folders that the fixer made are gone, files are what they were. Raises Refusal where one was
    edited since; what does not depend on it is taken back all the same."""
    project, fixer = project_of(call), str(call.args["fixer"])
    restored = [*take_out(project, fixer), *take_away(project, fixer)]
    return {"restored": [*restored, *put_back(project, fixer)]}
