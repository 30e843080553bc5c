"""The table of verbs, with the help, arguments and options of each verb."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli import options
from pipeline.cli.verb import RESULTS, RUN, SET_UP, WATCH, Connects, Verb

HOST = "a file in configs/hosts/, an alias in ~/.ssh/config, user@address:port, an ssh command, or `local`"
CONFIG = "a file in configs/, or a path"

VERBS: dict[str, Verb] = {
    "init": Verb(
        "create the config files of this project",
        "Write configs/NAME.yaml. Also write configs/hosts/HOST.yaml, unless the host has a file already or is an SSH "
        "alias. DESTINATION is user@address:port, or the ssh command that your provider shows, in quotes. With "
        "DESTINATION, init also checks whether the host has torch and a persistent volume.",
        [
            click.Argument(["destination"], required=False, default="", metavar="[DESTINATION]"),
            options.text("--host", metavar="NAME", help="name of the host; init prompts for its address"),
            options.text("-c", "--config", "name", metavar="NAME", help="name of the config"),
            options.text("--script", metavar="PATH", help="script that starts the training"),
            options.text(
                "--data", metavar="PATH", help="training data: a folder or file, sent separately from the code"
            ),
            options.card("GPU of the host, such as titan-rtx or 7.5, for a `plan` without a connection"),
            options.flag("--force", help="overwrite existing configs"),
            options.flag("-y", "--yes", help="use all defaults; answer yes to all questions, but refuse new host keys"),
        ],
        group=SET_UP,
    ),
    "run": Verb(
        "run all stages; stages that are already done are skipped",
        "Run all stages on the host: sync, environment, fix, verify, train, logs. Stages that are already done are "
        "skipped. Several configs, or several values in one --set, start several runs: all are verified first, then "
        "trained one after another on the host.",
        [
            options.host(f"{HOST}; a,b: train one run on both hosts together"),
            options.config(f"{CONFIG}; a,b: several runs"),
            options.overrides("; KEY=1,2: several runs"),
            options.stage("--until", help="stop after this stage"),
            options.stage("--force", help="redo this stage and all later stages"),
            options.text(
                "--resume",
                metavar="RUN",
                source="runs",
                help="resume this run even if its inputs have changed; needs neither --host nor --config",
            ),
            options.flag("-d", "--detach", help="return as soon as the job is running"),
            options.flag("--no-heal", help="stop at a known failure instead of repairing its cause and continuing"),
            options.yes(),
        ],
        connects=Connects(keep=True, several=True),
        group=RUN,
    ),
    "verify": Verb(
        "check that host and project are ready, and change nothing",
        "Check whether host and project are ready, and show for each stage whether `run` would have work to do.",
        [
            options.host(HOST, required=True),
            options.config(CONFIG, required=True),
            options.overrides(),
            options.flag("--no-proof", help="skip the proof: two optimizer steps of the real command"),
            options.flag("-v", "--verbose", help="list every check that passed or could not be run"),
        ],
        connects=Connects(keep=False),
        group=RUN,
    ),
    "plan": Verb(
        "show what `run` would change, as a diff",
        "Show what `run` would send, delete and rewrite, as a diff.",
        [
            options.host("plan for this host; or use --card"),
            options.config(CONFIG),
            options.card("plan for this GPU, such as titan-rtx or 7.5, without connecting to a host"),
            options.overrides(),
        ],
        group=RUN,
    ),
    "fix": Verb(
        "run only the fixers, in a local folder or on a host",
        "Correct known faults with the smallest possible edits. PATH is a local folder; default: the current folder.",
        [
            click.Argument(["path"], required=False, metavar="[PATH]", type=click.Path(path_type=Path)),
            options.host("fix the project on this host instead of a local folder"),
            options.config("use the `fixers:` and `model:` settings of this config"),
            options.several("--only", metavar="NAME", help="run only this fixer; repeatable", source="fixers"),
            options.flag("--diff", help="show what would change, and change nothing"),
            options.flag("--check", help="like --diff; the exit code is 1 if something would change"),
            options.flag("--undo", help="restore the files that fixers changed"),
            options.card("fix for this GPU, such as titan-rtx or 7.5"),
            options.overrides(),
            options.flag("-v", "--verbose", help="list every warning, and every suspicious line left unchanged"),
        ],
        group=RUN,
    ),
    "status": Verb(
        "show the progress and the outcome of a run",
        "Show the progress or result of a run. The exit code is 0 if the host is reachable, even if the run failed.",
        [options.run()],
        group=WATCH,
    ),
    "list": Verb(
        "list every run of this project",
        "List all runs, newest first, with their last known state. `pipeline status RUN` reads the current state.",
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
        "Until the job ends, print a row of scalars per step. If the host is unreachable, print the scalars of the "
        "local copy.",
        [
            options.run(),
            options.several("--tag", "only", metavar="TEXT", help="only tags that contain TEXT; repeatable"),
            options.flag("--new", help="skip scalars that were written before the command started"),
        ],
        printed="one JSON object per scalar, then the result,",
        group=WATCH,
    ),
    "tensorboard": Verb(
        "start TensorBoard with the local copies of all runs",
        "Start TensorBoard with the local copies of all runs, and print its address. The copy of RUN is updated live. "
        "Ctrl-C ends TensorBoard, not the job.",
        [
            options.run(),
            click.Option(
                ["--port"],
                type=click.IntRange(0, 65535),
                default=6006,
                show_default=True,
                metavar="PORT",
                help="port on this machine; 0: any free port",
            ),
        ],
        group=WATCH,
    ),
    "pull": Verb(
        "download logs and, with --weights, the adapter",
        "Download new log data. New data is appended to the local files, which are never rewritten.",
        [options.run(), options.flag("--weights", help="also download the adapter and verify its digests")],
        group=RESULTS,
    ),
    "stop": Verb(
        "stop a run's job and keep its checkpoint",
        "End the job and every process it started; `pipeline run` resumes the run from its checkpoint.",
        [
            options.run(),
            click.Option(
                ["--grace"],
                type=click.FloatRange(min=0),
                metavar="SECONDS",
                help="seconds to wait for a checkpoint to be saved; default: grace_s of the config",
            ),
        ],
        group=RUN,
    ),
    "wait": Verb(
        "wait for a run's job to end; the exit code shows the result",
        "Wait until the job ends. Exit codes: 0 succeeded; 40 failed, or stopped without a checkpoint; 41 lost "
        "(outcome unknown); 42 stopped or preempted, with a checkpoint.",
        [options.run()],
        group=WATCH,
    ),
    "attach": Verb(
        "follow a run in progress",
        "Follow a run in progress and report how it ended. The exit codes are the same as for `wait`.",
        [options.run()],
        group=WATCH,
    ),
    "diagnose": Verb(
        "explain the error in a log: cause, fix, and popular but wrong advice",
        "Explain the errors in a log, earliest first. The log is a file, the output of a run, or standard input (-); "
        "default: the newest output of this project. Exit code: 0 without errors, 22 if the disk was full, else 40.",
        [
            click.Argument(
                ["what"], required=False, default="", metavar="[FILE|RUN|-]", shell_complete=options.completes("runs")
            )
        ],
        group=RESULTS,
    ),
    "explain": Verb(
        "print the page that explains a fixer, check, stage or error",
        "Print the documentation page of a fixer, check, stage or error. Without NAME, list all names.",
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
        "Write an HTML report of a run: stages, fixes, proofs, curves, and repairs after failures. For a run in "
        "progress, state and curves are downloaded first. With several runs, write a page that compares them: overlaid "
        "curves, and the settings, files and results that differ.",
        [options.runs(), options.flag("--open", "open_page", help="open the page in a browser")],
        group=RESULTS,
    ),
    "evaluate": Verb(
        "score an adapter and its base model, and print published results for comparison",
        "Evaluate an adapter and its base model on the evaluation split, as a job on the host, and print the "
        "scores. After an interruption, run the command again: it continues with the samples that are left.",
        [
            options.run(),
            click.Option(
                ["--adapter"],
                default="",
                metavar="PATH",
                type=click.Path(file_okay=False),
                help="a local folder with a LoRA adapter, instead of a run; needs --host and --config",
            ),
            options.host("with --adapter: the host on which to evaluate"),
            options.config("with --adapter: the config that names the model and the data"),
            options.overrides(example="evaluation.samples=100"),
            options.flag("-d", "--detach", help="return as soon as the job is running"),
        ],
        group=RESULTS,
    ),
    "merge": Verb(
        "merge a run's adapter into its base model",
        "Merge the adapter of a run into its base model, as a job on the host. The result stays on the host.",
        [
            options.run(),
            options.flag("--dequantize", help="if the base model is in NF4, merge into its dequantized weights"),
        ],
        group=RESULTS,
    ),
    "push": Verb(
        "upload a run's adapter to the model hub, with a model card",
        "Upload a run's adapter to the model hub, with a model card: base model, data, precision, scores. Without "
        "--repo, write the model card locally, and print the Python code that loads the adapter.",
        [
            options.run(),
            options.text("--repo", metavar="OWNER/NAME", help="repository on the hub; created if it does not exist"),
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
                help="name of the GPU as SkyPilot or dstack spells it, or `none`; default: any GPU with 24 GB",
            ),
            options.text(
                "--volume", metavar="NAME", help="persistent volume of SkyPilot or dstack for checkpoints and results"
            ),
        ],
        group=SET_UP,
    ),
    "hosts": Verb(
        "list all hosts; `hosts check NAME` tests one",
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
        "list all configs",
        "List all configs: first the configs of the project, then the configs that come with halfstep.",
        group=SET_UP,
    ),
}
