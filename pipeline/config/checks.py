"""Checks of a well-formed config: missing files, contradictory numbers, secrets, fixers."""

from __future__ import annotations

import difflib
import itertools
import json
from pathlib import Path, PurePosixPath

from pipeline.config.document import Document
from pipeline.config.fixer_settings import check_fixer_settings
from pipeline.config.model import RunConfig
from pipeline.config.problems import quoted_item
from pipeline.config.readme_commands import VARIABLE
from pipeline.config.secret_values import (
    SECRET_VALUE,
    check_argv,
    check_environment,
    check_names,
    check_texts,
    secret_reason,
)
from pipeline.config.shipped import shipped_data
from remote.project.paths import exists, expanded, is_file, is_folder, resolved, why_hidden
from remote.protocol.evaluation import metric_names
from remote.protocol.findings import Finding
from remote.protocol.training import FRESH, LOSS, MESSAGES, TASKS

INTERPRETERS = ("python", "python3", "torchrun", "accelerate", "bash", "sh")
TAKES_CODE = ("-c", "-m")
MOST_FOLDERS = 200
"""The maximum number of folders in which a missing file is searched for."""


def check_run_config(config: RunConfig, document: Document, root: Path) -> tuple[Finding, ...]:
    """Return every problem of the config that can be found without a connection to the host."""
    found = [
        *_command_problems(config, document, root),
        *_built_in_problems(config, document),
        *_data_problems(config, document, root),
        *_task_problems(config, document),
        *_adapter_problems(config, document),
        *check_fixer_settings(config.fixers, document),
        *check_environment(config.env, document),
        *check_names(config.secrets, document),
        *check_argv(config.command or (), document),
        *check_texts(document),
    ]
    save_steps, max_steps = config.train.save_steps, config.train.max_steps
    if save_steps is not None and max_steps is not None and save_steps > max_steps:
        message = f"{save_steps} is more than max_steps ({max_steps}): no checkpoint would be written"
        found.append(document.problem(("train", "save_steps"), message))
    step, micro_batch = config.train.batch_size * config.train.gradient_accumulation, config.train.micro_batch
    if micro_batch != "auto" and step % micro_batch:
        message = f"{micro_batch} does not divide the {step} samples of an optimizer step"
        found.append(document.problem(("train", "micro_batch"), message))
    found += _validation_problems(config, document)
    found += _sharding_problems(config, document)
    collator = (config.fixers.model_extra or {}).get("data-collator")
    if isinstance(collator, dict) and isinstance(collator.get("path"), str):
        found += _file_problems(document, ("fixers", "data-collator", "path"), collator["path"], root)
    return tuple(found)


def _validation_problems(config: RunConfig, document: Document) -> list[Finding]:
    """Return the problems of the settings for validation during the training: missing keys, or an unknown metric."""
    metric = config.train.best_metric
    for key, used in (("early_stop", config.train.early_stop is not None), ("best_metric", metric != LOSS)):
        if used and config.train.eval_steps is None:
            return [document.problem(("train", key), "needs train.eval_steps, the steps between evaluations")]
    if config.train.eval_steps is not None and config.data.validation_split is None:
        return [document.problem(("train", "eval_steps"), "needs data.validation_split, the held-out recordings")]
    known = [LOSS, *(name for task in config.data.tasks for name in metric_names(task))]
    if metric not in known:
        near = difflib.get_close_matches(metric, known, n=1)
        hint = f"best_metric: {near[0]}" if near else ""
        return [
            document.problem(("train", "best_metric"), f"unknown metric {metric!r} of the tasks in data.tasks", hint)
        ]
    return []


def _sharding_problems(config: RunConfig, document: Document) -> list[Finding]:
    """Return a problem for each setting that cannot be combined with `train.shard_base`."""
    if not config.train.shard_base:
        return []
    found = []
    if config.train.evaluate:
        message = "needs train.evaluate: false, because a sharded model cannot be evaluated by a single process"
        found.append(document.problem(("train", "shard_base"), message, "pipeline evaluate RUN   (after the training)"))
    if config.train.eval_steps is not None:
        found.append(document.problem(("train", "shard_base"), "cannot be combined with train.eval_steps"))
    if config.model is not None and config.model.quantization is not None:
        found.append(document.problem(("train", "shard_base"), "cannot be combined with model.quantization"))
    if config.lora.use_dora:
        found.append(document.problem(("train", "shard_base"), "cannot be combined with lora.use_dora"))
    if config.command is not None:
        found.append(document.problem(("train", "shard_base"), "applies to the built-in trainer only"))
    return found


def _command_problems(config: RunConfig, document: Document, root: Path) -> list[Finding]:
    if config.command is None:
        return []
    if not config.command:
        return [
            document.problem(("command",), "is empty: write the argv of your script, or null for the built-in trainer")
        ]
    if VARIABLE.fullmatch(config.command[0]):
        return [_variables_problem(config, config.command, document)]
    script = _script_of(config.command)
    return _file_problems(document, ("command",), script, root) if script else []


def _variables_problem(config: RunConfig, argv: tuple[str, ...], document: Document) -> Finding:
    """Return the problem of a command that begins with `NAME=value`. The hint is the same command with `env:`."""
    found = [*itertools.takewhile(bool, map(VARIABLE.fullmatch, argv))]
    variables = {each[1]: each[2] for each in found if each}
    values = {**config.env, **variables}
    secrets = [name for name, value in values.items() if secret_reason(name, value)]
    settings = [f"{quoted_item(name)}: {json.dumps(values[name])}" for name in values if name not in secrets]
    rest = [] if any(map(SECRET_VALUE.search, argv)) else argv[len(found) :]
    lines = [
        *([f"env: {{{', '.join(settings)}}}"] if settings else []),
        *([f"secrets: [{', '.join(dict.fromkeys((*config.secrets, *secrets)))}]"] if secrets else []),
        *([document.as_typed(("command",), f"[{', '.join(map(quoted_item, rest))}]")] if rest else []),
    ]
    message = f"begins with variables ({', '.join(variables)}), but no shell starts the command: set them under env:"
    return document.problem(("command",), message, " and ".join(lines))


def _script_of(argv: tuple[str, ...]) -> str:
    """Return the script that a command runs, or "" if there is none: `python -u src/train.py` gives src/train.py."""
    if Path(argv[0]).name not in INTERPRETERS:
        return argv[0] if argv[0].startswith(("./", "../")) else ""
    for word in argv[1:]:
        if word in TAKES_CODE:
            return ""
        if word.endswith((".py", ".sh")):
            return word
    return ""


def _file_problems(document: Document, key: tuple[str, ...], path: str, root: Path) -> list[Finding]:
    if Path(path).is_absolute():
        return []
    target = resolved(root / path)
    if not target.is_relative_to(root):
        return [document.problem(key, f"{path} is outside the project {root}")]
    if hidden := why_hidden(target):
        return [document.problem(key, f"{path} cannot be read: {hidden}")]
    if not exists(target):
        if (root / path).is_symlink():
            return [document.problem(key, f"{path} is a broken link")]
        near = _nearest_file(path, root)
        return [document.problem(key, f"there is no {path} in {root}{f'; did you mean {near}?' if near else ''}")]
    return []


def _nearest_file(path: str, root: Path) -> str:
    """Return a project file with the same name in another folder or with a similar name, or "" if there is none."""
    wanted = PurePosixPath(path)
    folders = [entry for entry in sorted(root.iterdir()) if is_folder(entry) and not entry.name.startswith(".")]
    for folder in (root, *folders[:MOST_FOLDERS]):
        if is_file(folder / wanted.name):
            return str((folder / wanted.name).relative_to(root))
    folder = (root / path).parent
    names = sorted(entry.name for entry in folder.glob(f"*{wanted.suffix}")) if is_folder(folder) else []
    near = difflib.get_close_matches(wanted.name, names, n=1)
    return str(wanted.parent / near[0]) if near else ""


def _built_in_problems(config: RunConfig, document: Document) -> list[Finding]:
    if config.command is not None:
        return []
    found = []
    if config.model is None:
        found.append(document.problem(("model",), "the built-in trainer needs model: {id: ...} (or set a command)"))
    if config.data.dataset is None and config.data.path is None:
        found.append(document.problem(("data",), "the built-in trainer needs data.dataset or data.path"))
    return found


def _task_problems(config: RunConfig, document: Document) -> list[Finding]:
    """Return a problem for each task that is neither built in nor defined under `data.templates`."""
    known = [*TASKS, MESSAGES, *config.data.templates]
    found = []
    for number, task in enumerate(config.data.tasks):
        if task not in known:
            near = difflib.get_close_matches(task, known, n=1)
            message = f"did you mean {near[0]}?" if near else f"the tasks are {', '.join(known)} and data.templates"
            found.append(document.problem(("data", "tasks", number), f"unknown task {task!r}; {message}"))
    if not config.data.tasks:
        found.append(document.problem(("data", "tasks"), f"is empty; the tasks are {', '.join(known)}"))
    return found


def _adapter_problems(config: RunConfig, document: Document) -> list[Finding]:
    """Return the problems of LoRA settings: no layer to train, or no effect because `model.adapter` is continued."""
    found = []
    for key in ("parts", "targets"):
        if getattr(config.lora, key) == ():
            found.append(document.problem(("lora", key), "is empty: no layer would get an adapter"))
    if config.model is None or config.model.adapter == FRESH:
        return found
    ignored = ("parts", "modules_to_save", "use_rslora", "use_dora")
    for key in sorted(config.lora.model_fields_set.intersection(ignored)):
        message = f"has no effect: model.adapter continues {config.model.adapter}, which keeps its settings"
        found.append(document.problem(("lora", key), message))
    return found


def _data_problems(config: RunConfig, document: Document, root: Path) -> list[Finding]:
    data = config.data
    if data.min_seconds > data.max_seconds:
        message = f"{data.min_seconds:g} is more than max_seconds ({data.max_seconds:g})"
        return [document.problem(("data", "min_seconds"), message)]
    if data.dataset is not None and data.path is not None:
        return [document.problem(("data",), "dataset and path are both set; remove one")]
    if data.path is not None and not exists(path := root / expanded(data.path)):
        hidden = why_hidden(path)
        message = f"{data.path} cannot be read: {hidden}" if hidden else f"there is no {data.path} in {root}"
        return [document.problem(("data", "path"), message)]
    if data.dataset is not None and "/" not in data.dataset and shipped_data(data.dataset) is None:
        return [
            document.problem(
                ("data", "dataset"), f"{data.dataset!r} is neither a hub dataset (owner/name) nor a built-in one"
            )
        ]
    return []
