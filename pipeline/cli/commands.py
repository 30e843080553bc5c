"""The table of verbs: what each takes on the command line."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import options
from pipeline.cli.verb import RESULTS, RUN, SET_UP, WATCH, Connects, Verb

HOST = "a file in configs/hosts/, an alias in ~/.ssh/config, user@address:port, an ssh command, or local"
CONFIG = "a file in configs/, or a path"

VERBS: dict[str, Verb] = {
    "init": Verb(
        "write configs/ for this project",
        "Write configs/NAME.yaml, and configs/hosts/HOST.yaml unless the host already has a file or is an SSH alias. "
        "DESTINATION is user@address:port, or the ssh command that a console prints, in quotes; init "
        "then checks whether the host has torch and a persistent volume.",
        [
            click.Argument(["destination"], required=False, default="", metavar="[DESTINATION]"),
            options.text("--host", metavar="NAME", help="name of the host; init prompts for its address"),
            options.text("-c", "--config", "name", metavar="NAME", help="name of the config"),
            options.text("--script", metavar="PATH", help="script that starts the training"),
            options.text(
                "--data", metavar="PATH", help="training data: a folder or file, sent separately from the code"
            ),
            options.card("card (GPU) of the host, for plans made without a connection"),
            options.flag("--force", help="overwrite existing configs"),
            options.flag(
                "-y", "--yes", help="use the default for every prompt, or yes; reject new host keys and files"
            ),
        ],
        group=SET_UP,
    ),
    "run": Verb(
        "run all stages; stages that are already done are skipped",
        "Run all stages on the host: sync, environment, fix, verify, train, logs. Skip those that are already done.",
        [
            options.host(HOST),
            options.config(CONFIG),
            options.overrides(),
            options.stage("--until", help="stop after this stage"),
            options.stage("--force", help="redo this stage and all after it"),
            options.text(
                "--resume",
                metavar="RUN",
                source="runs",
                help="resume this run even if its inputs have changed; needs neither --host nor --config",
            ),
            options.flag("-d", "--detach", help="return as soon as the job is running"),
            options.flag("--no-heal", help="stop at a failure instead of applying its cure"),
            options.yes(),
        ],
        connects=Connects(keep=True),
        group=RUN,
    ),
    "verify": Verb(
        "check whether host and project are ready, without changing anything",
        "Check whether host and project are ready, and show for each stage whether `run` would have work to do.",
        [
            options.host(HOST, required=True),
            options.config(CONFIG, required=True),
            options.overrides(),
            options.flag("--no-proof", help="skip the proof: two optimizer steps of the real command"),
            options.flag("-v", "--verbose", help="list every check that passed or could not be made"),
        ],
        connects=Connects(keep=False),
        group=RUN,
    ),
    "plan": Verb(
        "show what `run` would change, as a diff",
        "Show what `run` would send, delete and rewrite, as a diff.",
        [
            options.host("plan for this host; without a host, use --card"),
            options.config(CONFIG),
            options.card("plan for this card, such as titan-rtx or 7.5, without connecting to a host"),
            options.overrides(),
        ],
        group=RUN,
    ),
    "fix": Verb(
        "apply only the fixers, to a local folder or on a host",
        "Apply the fixers: correct known faults with the smallest possible edits. A second run changes nothing.",
        [
            click.Argument(["path"], required=False, metavar="[PATH]", type=click.Path(path_type=Path)),
            options.host("fix the project on this host instead of a local folder"),
            options.config("the config whose `fixers:` and `model:` apply"),
            options.several("--only", metavar="NAME", help="only this fixer; repeatable", source="fixers"),
            options.flag("--diff", help="show what would change, and change nothing"),
            options.flag("--check", help="like --diff; the exit code is 1 if something would change"),
            options.flag("--undo", help="restore what fixers changed"),
            options.card("fix for this card, such as titan-rtx or 7.5"),
            options.overrides(),
            options.flag("-v", "--verbose", help="list every warning and every line left unchanged"),
        ],
        group=RUN,
    ),
    "status": Verb(
        "show the progress and the outcome of a run",
        "Show how far a run is and how it ended. The exit code is 0 if the host is reachable, however the run ended.",
        [options.run()],
        group=WATCH,
    ),
    "list": Verb(
        "list every run of this project",
        "List all runs in their last known state, newest first; `pipeline status RUN` shows the current state of one.",
        module="list_runs",
        group=WATCH,
    ),
    "logs": Verb(
        "print the trainer's output",
        "Print the output of the run's newest job. If the host is unreachable, print the local copy and its age.",
        [
            options.run(),
            options.flag("-f", "--follow", help="keep printing until the job ends"),
            click.Option(["--tail"], type=click.IntRange(min=0), metavar="N", help="only the last N lines"),
        ],
        group=WATCH,
    ),
    "tail": Verb(
        "print live scalars from the host's TensorBoard files",
        "Print one row of scalars for each step until the job ends. If the host is unreachable, print local data. With "
        "--json, print one JSON object per line: one for each scalar, then the result of the command.",
        [
            options.run(),
            options.several("--tag", "only", metavar="TEXT", help="only tags that contain TEXT; repeatable"),
            options.flag("--new", help="skip scalars that were written before the command started"),
        ],
        group=WATCH,
    ),
    "tensorboard": Verb(
        "start TensorBoard on a local copy that is updated live",
        "Start TensorBoard on a live local copy and print its address. Ctrl-C ends TensorBoard, not the job.",
        [
            options.run(),
            click.Option(
                ["--port"],
                type=click.IntRange(0, 65535),
                default=6006,
                show_default=True,
                metavar="PORT",
                help="port on this machine; 0 selects a free one",
            ),
        ],
        group=WATCH,
    ),
    "pull": Verb(
        "download logs and, with --weights, the adapter",
        "Download new log data. Local files are appended to, never rewritten.",
        [options.run(), options.flag("--weights", help="also download the adapter and verify its digests")],
        group=RESULTS,
    ),
    "stop": Verb(
        "stop a run's job and keep its checkpoint",
        "End the job and every process it started; `pipeline run` resumes from its checkpoint.",
        [
            options.run(),
            click.Option(
                ["--grace"],
                type=click.FloatRange(min=0),
                metavar="SECONDS",
                help="time for saving a checkpoint; default: grace_s of the config",
            ),
        ],
        group=RUN,
    ),
    "wait": Verb(
        "wait for a run's job to end; the exit code is its outcome",
        "Wait until the job has ended. Exit codes: 0 succeeded, 40 failed, 41 lost, 42 stopped or preempted.",
        [options.run()],
        group=WATCH,
    ),
    "attach": Verb(
        "follow a run in progress",
        "Follow a run in progress and report how it ended. The exit codes are those of `wait`.",
        [options.run()],
        group=WATCH,
    ),
    "diagnose": Verb(
        "name the error in a log, its cause, its fix, and popular but wrong advice",
        "Name the errors in a log, the earliest first. Exit codes: 0 if there is no error, 40 if there is one.",
        [
            click.Argument(
                ["what"], required=False, default="", metavar="[FILE|RUN|-]", shell_complete=options.completes("runs")
            )
        ],
        group=RESULTS,
    ),
    "explain": Verb(
        "explain a fixer, check, stage or error on one page",
        "Print the documentation page of NAME. Without NAME, list every name.",
        [
            click.Argument(
                ["name"], required=False, default="", metavar="[NAME]", shell_complete=options.completes("pages")
            )
        ],
        group=RESULTS,
    ),
    "docs": Verb(
        "print a page of the manual",
        "Print a page of the manual, which is installed with halfstep. Without PAGE, list every page.",
        [
            click.Argument(
                ["page"], required=False, default="", metavar="[PAGE]", shell_complete=options.completes("manual")
            )
        ],
        group=SET_UP,
    ),
    "report": Verb(
        "write a self-contained HTML report: stages, fixes, proofs, curves",
        "Write an HTML report of a run from local data: stages, fixes, proofs, curves, cures.",
        [options.run()],
        group=RESULTS,
    ),
    "evaluate": Verb(
        "score an adapter and its base model, and show published results",
        "Evaluate an adapter and its base model on the evaluation split, as a job on the host, and print the "
        "scores. A second run evaluates only what is left.",
        [
            options.run(),
            click.Option(
                ["--adapter"],
                default="",
                metavar="PATH",
                type=click.Path(file_okay=False),
                help="a local folder with a LoRA adapter, instead of a run; needs --host and --config",
            ),
            options.host("with --adapter: the host that evaluates it"),
            options.config("with --adapter: the config that names model and data"),
            options.several(
                "--set",
                "overrides",
                metavar="KEY=VALUE",
                help="override a key, such as evaluation.samples=100; repeatable",
            ),
            options.flag("-d", "--detach", help="return as soon as the job is running"),
        ],
        group=RESULTS,
    ),
    "push": Verb(
        "upload a run's adapter to the model hub, with a model card",
        "Upload a run's adapter to the model hub, with a model card: base model, data, precision, scores. Without "
        "--repo, write the card locally and print the lines of Python that load the adapter.",
        [
            options.run(),
            options.text(
                "--repo", metavar="OWNER/NAME", help="the repository on the hub; created if it does not exist"
            ),
            options.flag("--private", help="create the repository as private"),
        ],
    ),
    "export": Verb(
        "write a config as a task for SkyPilot or dstack, which rent machines",
        "Write the config as a task file for SkyPilot or dstack. The task uploads the project and halfstep.",
        [
            click.Argument(["engine"], type=click.Choice(["sky", "dstack"])),
            options.config(CONFIG, required=True),
            options.overrides(),
            options.text(
                "--gpu",
                metavar="GPU",
                help="GPU name as SkyPilot or dstack spells it, or none; default: any card with 24 GB",
            ),
            options.text(
                "--volume", metavar="NAME", help="persistent volume of SkyPilot or dstack for checkpoints and results"
            ),
        ],
        group=SET_UP,
    ),
    "hosts": Verb(
        "list hosts; `hosts check NAME` tests one",
        "List all host files. `hosts check NAME` tests a host or SSH alias: its connection and its GPU.",
        [
            click.Argument(
                ["action"],
                required=False,
                default="",
                metavar="[check NAME]",
                shell_complete=options.completes("host_actions"),
            ),
            click.Argument(["name"], required=False, default="", metavar="", shell_complete=options.completes("hosts")),
        ],
        group=SET_UP,
    ),
    "configs": Verb(
        "list configs",
        "List every config: those of the project first, then those that come with halfstep.",
        group=SET_UP,
    ),
}
