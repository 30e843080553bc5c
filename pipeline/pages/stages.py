"""The six stages in a page each."""

from __future__ import annotations

STAGES = {
    "sync": """The project's files, and our payload, are on the host.

**Valid while** the local tree, the ignore rules and the host's manifest agree, and nobody edited a file there.

One exchange compares digests; one compressed stream brings what differs. Files appear whole. What is gone here is
deleted there, behind a guard. `.gitignore` and `.pipelineignore` are followed exactly; secrets and huge files are
refused by name. Data named by `data:` is sent apart from code, in chunks that resume. See docs/sync.md.
""",
    "environment": """Python, torch build, driver, GPU, disk and memory are what this run needs.

**Valid while** the same interpreter, torch build, driver and GPU UUIDs are there.

Versions are read without importing anything; the stage itself then runs the interpreter once: imports, a product
of matrices on each card, a real write where the run will lie.
""",
    "fix": """No fixer has anything left to do.

**Valid while** the project's files, the fixers' versions, the card and the `fixers:` of the config are the same.

The host's tree is fix(the laptop's tree): source fixers compute here, from the bytes that were sent, and all
rewrites are applied there together. The laptop's own files are never touched by `run`. Setup fixers act on the
host. See docs/fixers/.
""",
    "verify": """Half precision will train: proved on the card with the real script.

**Valid while** everything above, and the config, are the same.

Three depths: what code and config ask for; what the card can do; and the real training command, unmodified, under
hooks from outside for two applied optimizer steps on the real model and data, in a scratch folder that is removed.
What could not be checked is said to be not checked. See docs/verify.md.
""",
    "train": """The job ended well, and its newest checkpoint is verified.

**Valid while** everything above, and the data, are the same.

The job is started once, under a supervisor that outlives the connection; typed again, `run` joins it, or resumes
it from the newest trainer checkpoint whose SHA-256 manifest verifies. Known failures are healed at most twice. See
docs/jobs.md.
""",
    "logs": """The TensorBoard files, the output and the adapter are here, whole, and a page sums the run up.

**Valid while** the job's end and the sizes of its event files are the same.

Event files come append-only and in whole records; the adapter comes with its digests verified. See docs/logs.md.
""",
}
