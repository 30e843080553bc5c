"""`pipeline init`: ask a few questions and write the project's config files."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fixers.frame.disk_tree import DiskTree
from fixers.sources.shells import is_shell
from pipeline.config.destination import is_destination
from pipeline.config.draft import READMES, REQUIREMENTS, Answers, Guess, guess_project, render_config, render_host
from pipeline.config.find import data_folders, find_host, find_project
from pipeline.config.hosts import load_host
from pipeline.config.shipped import shipped_configs
from pipeline.hosts.trust import keep_trust
from pipeline.messages.outcome import Outcome
from pipeline.records.files import write_atomic
from pipeline.records.layout import Records, safe_name
from pipeline.show.prompts import Defaults, Questions, prompter_for
from pipeline.show.screen import Screen
from pipeline.verbs.first_look import FirstLook, look_at
from pipeline.verbs.init_answers import choose_card, choose_data, choose_script, requested_of_slurm, start_of
from remote.errors import BadUsage
from remote.link.address import LOCAL, judge_host
from remote.link.prompter import Prompter
from remote.link.ssh.aliases import is_alias, list_aliases
from remote.project.paths import exists, is_file, resolved
from remote.project.records_folder import refuse_links_between
from remote.protocol.shell import command_line, shell_command


def init(
    destination: str = "",
    host: str = "",
    name: str = "",
    script: str = "",
    data: str = "",
    card: str = "",
    force: bool = False,
    yes: bool = False,
    as_json: bool = False,
) -> int:
    """Write configs/NAME.yaml. Also write configs/hosts/HOST.yaml if the host needs a file and does not have one."""
    screen = Screen(as_json=as_json)
    questions: Questions = Defaults(yes=yes) if yes or as_json else screen
    typed = _words({"--script": script, "--data": data, "--card": card}, yes=yes)
    destination, host = _split(destination, host)
    _check_names(name, host)
    cwd = Path.cwd()
    tree = DiskTree(cwd)
    guess = _guess(tree)
    name = name or questions.ask("name of the config", default=safe_name(cwd.name))
    prompter = prompter_for(screen, yes=yes)
    if destination and not (force or script or data) and exists(_config_file(cwd, name)):
        return _add_host(destination, host, name, card, cwd, screen, questions, prompter)
    words = [*filter(None, [destination]), *typed]
    _refuse_to_overwrite([_config_file(cwd, name)], host, name, words, force=force)
    named = bool(script) or len(guess.scripts) > 1
    options = _words({"--host": host, "--config": name, "--card": card}, yes=yes)
    again = [*filter(None, [destination]), *options, *["--force"] * force]
    script = choose_script(guess, script, data, cwd, screen, questions, again)
    destination, host, look = _choose_host(destination, host, cwd, screen, questions, prompter)
    _check_names(name, host)
    known = not look.address and find_host(host, cwd).path is not None
    address, look = _address_and_look(host, look, known, guess, cwd, screen, questions, prompter)
    found = next(data_folders(cwd, set(tree.paths())), "")
    start = start_of(guess, script, name, screen, named=named)
    answers = Answers(
        name,
        host,
        address,
        script,
        guess.collator,
        start.argv,
        start.variables,
        data=choose_data(data, found, cwd, screen, questions),
        found_data=found,
        environment=_creates_environment(guess, host, look, script, screen, questions),
        offers_environment=look.has_torch is None and _may_lack_torch(guess, host),
        card=choose_card(card, host, screen, Defaults(yes=yes) if look.has_card else questions) if not known else "",
        reach=look.reach,
        workdir=look.workdir,
        variables=look.environment,
        incomplete=bool(start.places),
        slurm=requested_of_slurm(start, tree, screen),
    )
    return _write(_files(cwd, answers, needs_host=not known), answers, screen, cwd, words, force=force)


def _words(options: Mapping[str, str], *, yes: bool) -> list[str]:
    """Return the options that have a value, as the words of a command line."""
    return [word for option, value in options.items() if value for word in (option, value)] + ["--yes"] * yes


def _add_host(
    destination: str,
    host: str,
    name: str,
    card: str,
    cwd: Path,
    screen: Screen,
    questions: Questions,
    prompter: Prompter | None,
) -> int:
    """Write the file of another host for an existing config."""
    _, host, look = _choose_host(destination, host, cwd, screen, questions, prompter)
    _check_names(name, host)
    path = _host_file(cwd, host)
    if exists(path):
        again = command_line(["pipeline", "init", destination, "--host", f"{host}-2", "--config", name])
        raise BadUsage(f"{path} exists already", where=str(path), hint=again)
    card = choose_card(card, host, screen, Defaults(yes=False))
    answers = Answers(
        name, host, look.address, "", "", card=card, reach=look.reach, workdir=look.workdir, variables=look.environment
    )
    screen.note(f"kept {_config_file(cwd, name).relative_to(cwd)}")
    return _write({path: render_host(answers)}, answers, screen, cwd, [destination], force=False)


def _config_file(cwd: Path, name: str) -> Path:
    return cwd / "configs" / f"{name}.yaml"


def _host_file(cwd: Path, host: str) -> Path:
    return cwd / "configs" / "hosts" / f"{host}.yaml"


def _guess(tree: DiskTree) -> Guess:
    read = [
        path for path in tree.paths() if path.endswith(".py") or is_shell(path) or path in (*REQUIREMENTS, *READMES)
    ]
    return guess_project(_texts(tree, read))


def _texts(tree: DiskTree, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the content of each file that can be read."""
    for path in paths:
        with contextlib.suppress(OSError):
            yield path, tree.read(path)


def _choose_host(
    destination: str, host: str, cwd: Path, screen: Screen, questions: Questions, prompter: Prompter | None
) -> tuple[str, str, FirstLook]:
    """Return the host's destination, name and survey. Ask for the host if no host was given."""
    if not destination and not host:
        question = "host (an alias, a name, user@address:port, an ssh command, or local)"
        asked = questions.ask(question, default=_default_host(cwd))
        destination, host = _split("", asked)
        if not screen.can_confirm() or isinstance(questions, Defaults):
            screen.note(f"host: {asked} (the default); use --host NAME for another host")
    look = look_at(destination, cwd, screen, prompter) if destination else FirstLook()
    return destination, host or questions.ask("name of the host", default=safe_name(look.address)), look


def _default_host(cwd: Path) -> str:
    """Return the default host: the only host with a file in this project, else the only ssh alias, else local.

    A file of a cloned project may have an address or an ssh command as its name, which the user did not choose.
    """
    files = (path.stem for path in (cwd / "configs" / "hosts").glob("*.yaml"))
    named = {name for name in files if name == safe_name(name) and not is_destination(name)} or set(list_aliases())
    return named.pop() if len(named) == 1 else LOCAL


def _split(destination: str, host: str) -> tuple[str, str]:
    """Return the destination (an address or an ssh command) and the host name. Each of them may be ""."""
    if not destination and is_destination(host):
        return host, ""
    if destination and not host and not is_destination(destination):
        return "", destination
    return destination, host


def _address_and_look(
    host: str,
    look: FirstLook,
    known: bool,
    guess: Guess,
    cwd: Path,
    screen: Screen,
    questions: Questions,
    prompter: Prompter | None,
) -> tuple[str, FirstLook]:
    """Return the address of the host, or "" for a `known` one, which has a file, and its survey.

    An ssh alias is surveyed if the config could create an environment on it, which only a host without torch needs.
    """
    if look.address or known:
        return look.address, look
    if not is_alias(host):
        return judge_host(questions.ask(f"address or ssh alias of {host}", default=host)), look
    return host, look_at(host, cwd, screen, prompter) if _may_lack_torch(guess, host) else look


def _creates_environment(
    guess: Guess, host: str, look: FirstLook, script: str, screen: Screen, questions: Questions
) -> bool:
    """Return True if the config is to create an environment, because the host has no torch or the user agrees."""
    if look.has_torch is None:
        question = f"if {host} has no torch, create a virtual environment from {guess.requirements}?"
        return _may_lack_torch(guess, host) and questions.confirm(question, default=True)
    if look.has_torch:
        return False
    if script and not guess.requirements:
        screen.note(
            f"{host} has no torch: write the script's packages into requirements.txt, one a line, and set"
            " `fixers: {environment: create}` in the config; `pipeline plan` names the packages"
        )
        return False
    source = guess.requirements or "the packages of the built-in trainer"
    screen.note(f"{host} has no torch: `environment: create` in the config makes a virtual environment from {source}")
    return True


def _may_lack_torch(guess: Guess, host: str) -> bool:
    return bool(guess.requirements) and (host != LOCAL or importlib.util.find_spec("torch") is None)


def _files(cwd: Path, answers: Answers, *, needs_host: bool) -> dict[Path, str]:
    """Return the contents of the files to write, by path. An ssh alias without further settings needs no host file."""
    files = {_config_file(cwd, answers.name): render_config(answers)}
    settings = (answers.reach, answers.card, answers.variables)
    if needs_host and (any(settings) or not is_alias(answers.host) or answers.address != answers.host):
        files[_host_file(cwd, answers.host)] = render_host(answers)
    return files


def _write(
    files: dict[Path, str], answers: Answers, screen: Screen, cwd: Path, typed: Sequence[str], *, force: bool
) -> int:
    """Write the files. `typed` are the words of the command line except host, config and --force, for hints."""
    host, name = answers.host, answers.name
    for path in files:
        refuse_links_between(cwd, path)
    _refuse_to_overwrite(files, host, name, typed, force=force)
    around = find_project(cwd.parent)
    if find_project(cwd) != resolved(cwd) and around in resolved(cwd).parents:
        screen.note(f"{around} is a project already; this folder becomes a separate project inside it")
    Records(cwd).prepare()
    for path, text in files.items():
        write_atomic(path, text.encode(), 0o644, root=cwd)
        screen.note(f"wrote {path.relative_to(cwd)}")
    if is_file(shipped_configs() / f"{name}.yaml") and _config_file(cwd, name) in files:
        screen.note(f"in this project, configs/{name}.yaml replaces the config {name} that comes with halfstep")
    if (host_file := _host_file(cwd, host)) in files:
        # The user has just chosen these settings. The file is not read again: another user could have replaced it.
        keep_trust(load_host(str(host_file), cwd, content=files[host_file].encode()))
    verb = "run" if answers.environment else "verify"  # `verify` does not create an environment, and fails without one
    command = shell_command("pipeline {} --host {} --config {}", verb, host, name)
    first = f"complete `command:` in configs/{name}.yaml, then run: " if answers.incomplete else ""
    screen.next_step(f"{first}{command}")
    screen.closing(Outcome("init", host=host, config=name, more={"written": [str(path) for path in files]}))
    return 0


def _refuse_to_overwrite(files: Iterable[Path], host: str, name: str, typed: Sequence[str], *, force: bool) -> None:
    """Raise BadUsage for a file that exists. The hint is the command that overwrites it."""
    for path in files:
        if exists(path) and not force:
            host_words = ["--host", host] if host else []
            again = command_line(["pipeline", "init", *typed, *host_words, "--config", name, "--force"])
            raise BadUsage(f"{path} exists already", where=str(path), hint=again)


def _check_names(name: str, host: str) -> None:
    for word, option in ((name, "--config"), (host, "--host")):
        valid = safe_name(word) if word else ""
        if word != valid:
            message = f"{word!r} is not a valid name; allowed: letters, digits, . _ -"
            raise BadUsage(message, where=option, hint=f"{option} {valid}")
