"""Expand `~` and `$NAME` in the environment variables of a config."""

from __future__ import annotations

import os
import re
from typing import Dict, Mapping

REFERENCE = re.compile(r"\$(?:(\w+)|\{([^}]*)\})", re.ASCII)


def expand_variables(configured: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables with `~` and `$NAME` expanded. The time is proportional to the length of the values.

    The results are those of os.path.expandvars, whose time grows with the square of the length: a value of 1 MB in a
    config would take minutes.
    """
    return {name: REFERENCE.sub(_value_of, os.path.expanduser(value)) for name, value in configured.items()}


def _value_of(reference: re.Match[str]) -> str:
    name = reference[1] if reference[1] is not None else reference[2]
    return os.environ.get(name, reference[0])
