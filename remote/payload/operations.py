"""Every operation the payload answers: a literal table of where it is, and whether it changes anything."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Dict, cast

from remote.payload.call import Handler


@dataclass(frozen=True)
class Operation:
    """A handler as `module:function` of remote.payload, and whether the host may be different after it.

    By name, so that an agent loads what it is asked for and nothing else: it starts with every connection.
    """

    where: str
    changes: bool

    @property
    def handler(self) -> Handler:
        module, _, function = self.where.partition(":")
        return cast(Handler, getattr(importlib.import_module(f"remote.payload.{module}"), function))


OPERATIONS: Dict[str, Operation] = {
    "survey": Operation("survey:survey", changes=False),
    "job.start": Operation("jobs:start", changes=True),
    "job.adopt": Operation("jobs:adopt", changes=True),
    "job.stop": Operation("jobs:stop", changes=True),
    "job.wait": Operation("jobs:follow", changes=False),
    "job.list": Operation("jobs:list_jobs", changes=False),
    "checkpoints.prepare": Operation("resume:prepare", changes=True),
    "environment.probe": Operation("probes_environment:probe_environment", changes=True),
    "file.read": Operation("files:read_file", changes=False),
    "file.list": Operation("files:list_files", changes=False),
    "events.read": Operation("events:read_events", changes=False),
    "log.read": Operation("logs:read_log", changes=False),
    "weights.list": Operation("weights:list_weights", changes=False),
    "weights.read": Operation("weights:read_weights", changes=False),
    "follow.events": Operation("follow:follow_events", changes=False),
    "follow.log": Operation("follow:follow_log", changes=False),
    "tree.survey": Operation("tree:tree_survey", changes=False),
    "tree.manifest": Operation("tree:tree_manifest", changes=False),
    "tree.receive": Operation("tree:tree_receive", changes=True),
    "data.survey": Operation("data:data_survey", changes=False),
    "data.receive": Operation("data:data_receive", changes=True),
    "tree.rewrite": Operation("tree_rewrite:tree_rewrite", changes=True),
    "tree.undo": Operation("tree_rewrite:tree_undo", changes=True),
    "tree.scratch": Operation("tree_scratch:tree_scratch", changes=True),
    "scratch.remove": Operation("tree_scratch:scratch_remove", changes=True),
    "card.step": Operation("proof.card:step_card", changes=False),
    "proof.run": Operation("proof.operation:run_proof", changes=False),
    "file.write": Operation("files:write_file", changes=True),
    "command.probe": Operation("files:run_command", changes=False),
    "command.run": Operation("files:run_command", changes=True),
    "fix.tokenizer.look": Operation("fix_tokenizer:look_at_tokenizers", changes=False),
    "fix.tokenizer.hub": Operation("fix_tokenizer:ask_hub", changes=False),
    "fix.tokenizer.replace": Operation("fix_tokenizer:replace_tokenizer_file", changes=True),
    "fix.collator.look": Operation("fix_collator:look_at_collator", changes=False),
    "fix.collator.replace": Operation("fix_collator:replace_collator", changes=True),
    "fix.processes.end": Operation("fix_processes:end_leftovers", changes=True),
    "fix.environment.create": Operation("fix_environment:create_environment", changes=True),
    "fix.hub.look": Operation("fix_hub:look_at_hub", changes=False),
    "fix.audio.look": Operation("fix_audio:look_at_audio", changes=False),
    "fix.packages.install": Operation("fix_packages:install_packages", changes=True),
    "fix.undo": Operation("fix_undo:undo", changes=True),
}
