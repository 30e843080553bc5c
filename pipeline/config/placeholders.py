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
PLACEHOLDER = re.compile(r"(?<!\$)\{((?:train|lora)\.[\w.-]+)\}")
OF_RUNS = ("output_dir", "tensorboard_dir", "resume_from", "data_dir", "free_port")
"""The placeholders that are replaced when the command is started."""
IN_BRACES = re.compile(r"(?<![\${])\{([A-Za-z][\w.-]{0,100})\}(?!\})")
"""Matches a word in braces, except variables of a shell or of Hydra, and double braces."""
NEAR = 0.85
"""The least similarity of a name to a placeholder that it probably means. `{output}` is often part of a prompt."""


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
    """Yield a problem for each placeholder that does not exist or has no single value."""
    for name in settings_named(config.command):
        section, _, key = name.partition(".")
        keys = SECTIONS[section].model_fields
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1)
            message = f"did you mean {{{section}.{near[0]}}}?" if near else f"the keys are {', '.join(keys)}"
            yield document.problem(("command",), f"there is no setting {name}; {message}")
        elif not _text(config, name):
            yield document.problem(("command",), f"{{{name}}} needs a single value, and {name} is a list or not set")
    if config.data.path is None and any("{data_dir}" in word for word in config.command or ()):
        yield document.problem(("command",), "{data_dir} needs data.path, which is not set")
    for name in _unknown_names(config.command or ()):
        yield document.problem(("command",), f"there is no placeholder {{{name}}}; {_nearest(name)}")


def _unknown_names(command: tuple[str, ...]) -> Iterator[str]:
    """Yield each name in braces that resembles a placeholder and is none. Python code after `-c` has its own braces."""
    code = command.index("-c") + 1 if command[:1] and "python" in command[0] and "-c" in command else 0
    words = (word for number, word in enumerate(command) if not code or number != code)
    for name in dict.fromkeys(name for word in words for name in IN_BRACES.findall(word)):
        section, dot, _ = name.partition(".")
        of_section = bool(dot) and section in RunConfig.model_fields and section not in SECTIONS
        if of_section or (section not in SECTIONS and _near(name, NEAR) not in ("", name)):
            yield name


def _nearest(name: str) -> str:
    near = "data_dir" if name == "data.path" else _near(name, 0.6)
    if near:
        return f"did you mean {{{near}}}?"
    return f"the placeholders are {', '.join(f'{{{one}}}' for one in OF_RUNS)}, {{train.KEY}} and {{lora.KEY}}"


def _near(name: str, least: float) -> str:
    """Return the placeholder that is most similar to the name, or "". Case, hyphens and underscores do not count."""
    settings = (f"{section}.{key}" for section, model in SECTIONS.items() for key in model.model_fields)
    known = {_plain(one): one for one in (*OF_RUNS, *(settings if "." in name else ()))}
    if name in known.values():
        return name
    near = difflib.get_close_matches(_plain(name), known, n=1, cutoff=least)
    return known[near[0]] if near else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _text(config: RunConfig, name: str) -> str:
    """Return the value of the setting as text, or "" if the setting is a list or not set."""
    section, _, key = name.partition(".")
    value = getattr(getattr(config, section), key, None)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float | str) else ""
