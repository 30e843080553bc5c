"""The documentation pages of the six stages."""

from __future__ import annotations

STAGES = {
    "sync": """Copies the project's files and halfstep's own program to the host.

**Valid while** the local files, the ignore rules and the host's manifest agree, and no file was edited on the host.

halfstep compares digests in one request and sends the differences in one compressed stream. Each file appears
complete or not at all. Files deleted locally are deleted on the host; a sync that would delete more than half of the
host's files stops before the first deletion. `.gitignore` and `.pipelineignore` apply exactly as in git. Files that
look like secrets are not sent, and a warning names them. Very large files end the stage, and the message names them.
Data under `data:` is sent separately from the code, in chunks; an interrupted transfer resumes. See docs/sync.md.
""",
    "environment": """Checks Python, torch build, driver, GPU, disk and memory of the host, and creates the virtual
environment that the config requests.

**Valid while** interpreter, torch build, driver and GPU UUIDs are unchanged.

The survey reads package versions from metadata, without importing the packages. The stage itself starts the interpreter
once. This process imports the training packages, multiplies matrices on each card, and writes a test file to the disk
of the run.
""",
    "fix": """Rewrites the host's copy of the project until no fixer has anything left to change.

**Valid while** the project's files, the fixers' versions, the card and the `fixers:` of the config are unchanged.

Source fixers run on the laptop, on the bytes that were sent. All rewritten files replace the host's copies in one
atomic change. `run` never changes the laptop's own files. Setup fixers change the host itself. See docs/fixers/.
""",
    "verify": """Proves with the real command that the training works with the planned precision.

**Valid while** the config and all inputs of the stages above are unchanged.

The stage checks the code and the config, and trains a small model on the card. Then it runs the real training command
under hooks, with the edits of the fixers, on the real model and data, until two optimizer steps are applied. The
command runs in a scratch folder, which is then deleted. A check that could not be run is reported as "not checked".
See docs/verify.md.
""",
    "train": """Runs the training as a job on the host.

**Valid while** the data and all inputs of the stages above are unchanged, and the newest trainer checkpoint passes
verification.

The job is started once and continues without a connection. Run the command again to reattach to the job. If the job
has ended early, the same command resumes from the newest trainer checkpoint whose files match their SHA-256 digests.
After a known failure, `run` repairs the cause by itself, at most twice (cures). See docs/jobs.md and docs/healing.md.
""",
    "logs": """Downloads the TensorBoard files, the output and the adapter.

**Valid while** the job's result and the sizes of its event files are unchanged.

New data is appended to the local event files, in whole records. The adapter's digests are verified. See docs/logs.md.
""",
}
