"""Placeholders in a config's `command:`, such as `--lr {train.learning_rate}`, which becomes `--lr 2e-05`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from pydantic import BaseModel

from pipeline.config.document import Document
from pipeline.config.model import LoraConfig, RunConfig, TrainConfig
from remote.protocol.findings import Finding

SECTIONS: dict[str, type[BaseModel]] = {"train": TrainConfig, "lora": LoraConfig}
PLACEHOLDER = re.compile(r"\{((?:train|lora)\.[\w.-]+)\}")


def settings_named(command: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the distinct names of the settings in the command's placeholders, such as `train.learning_rate`."""
    return tuple(dict.fromkeys(name for word in command or () for name in PLACEHOLDER.findall(word)))


def fill_command(config: RunConfig) -> RunConfig:
    """Return the config with the placeholders in its command replaced by values.

    Placeholders without a value are kept.
    """
    if not settings_named(config.command):
        return config
    words = (PLACEHOLDER.sub(lambda match: _text(config, match[1]) or match[0], word) for word in config.command or ())
    return config.model_copy(update={"command": tuple(words)})


def check_placeholders(config: RunConfig, document: Document) -> Iterator[Finding]:
    """Yield a problem for each placeholder whose setting does not exist or has no single value."""
    for name in settings_named(config.command):
        section, _, key = name.partition(".")
        keys = SECTIONS[section].model_fields
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1)
            message = f"did you mean {{{section}.{near[0]}}}?" if near else f"the keys are {', '.join(keys)}"
            yield document.problem(("command",), f"there is no setting {name}; {message}")
        elif not _text(config, name):
            yield document.problem(("command",), f"{{{name}}} needs a single value, and {name} is a list or not set")


def _text(config: RunConfig, name: str) -> str:
    """Return the value of the setting as text, or "" if the setting is a list or not set."""
    section, _, key = name.partition(".")
    value = getattr(getattr(config, section), key, None)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float | str) else ""
