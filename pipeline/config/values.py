"""The types that the models of configs and hosts share: text, names, command lines, limited numbers."""

from __future__ import annotations

import re
import shlex
import sys
from types import ModuleType
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, StrictInt, StrictStr
from pydantic_core import PydanticCustomError


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "must not contain a NUL character")
    return text


def _variable_name(name: str) -> str:
    if not name or "=" in name:
        raise PydanticCustomError("variable_name", "must be the name of an environment variable, without `=`")
    return name


def _secret_name(name: str) -> str:
    # The names are printed in commands for the user, and written into files of other tools.
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise PydanticCustomError("secret_name", "must be the name of an environment variable: letters, digits and _")
    return name


SHELL = frozenset(("&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1"))


def _split_words(command: Any) -> Any:
    """Split a command line into words, as a shell does. No other shell syntax is supported."""
    if not isinstance(command, str):
        return command
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise PydanticCustomError("command_line", "cannot be split into words: {why}", {"why": str(error)}) from None
    found = next((word for word in words if word in SHELL), "")
    if found:
        hint = 'has the shell operator {found}: put the line into a script, or write [bash, -c, "..."]'
        raise PydanticCustomError("shell_syntax", hint, {"found": found})
    return tuple(words)


Text = Annotated[StrictStr, AfterValidator(_without_nul)]
"""Text that a process can receive as an argument or in its environment."""
Command = Annotated[tuple[Text, ...], BeforeValidator(_split_words, json_schema_input_type=str | tuple[str, ...])]
"""A command line, or its words."""
VariableName = Annotated[Text, AfterValidator(_variable_name)]
SecretName = Annotated[Text, AfterValidator(_secret_name)]
Positive = Annotated[StrictInt, Field(gt=0, le=10**9)]
Share = Annotated[FiniteFloat, Field(ge=0.0, lt=1.0)]

# pydantic would search the metadata of all installed packages for plugins, which takes 10 ms.
without_plugins = ModuleType("pydantic.plugin._loader")
without_plugins.__dict__["get_plugins"] = tuple
sys.modules.setdefault(without_plugins.__name__, without_plugins)


class Frozen(BaseModel):
    """A frozen model that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
