"""The table of the payload's operations: the handler of each operation, and whether the operation changes the host."""

from __future__ import annotations

import importlib
from typing import Dict, cast

from remote.payload.request.call import Handler
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Operation:
    """A handler as `module:function` of remote.payload, imported on first use so that an agent starts fast.

    `changes` is True if the operation may change the host. Following a job may start a new supervisor for the job,
    which does not count as a change.
    """

    location: str
    changes: bool

    @property
    def handler(self) -> Handler:
        module, _, function = self.location.partition(":")
        return cast(Handler, getattr(importlib.import_module(f"remote.payload.{module}"), function))


OPERATIONS: Dict[str, Operation] = {
    "survey": Operation("survey.host:survey", changes=False),
    "runs.survey": Operation("survey.runs:runs_survey", changes=False),
    "job.start": Operation("jobs.operations:start", changes=True),
    "run.join": Operation("jobs.same_work:join_run", changes=True),
    "job.adopt": Operation("jobs.operations:adopt", changes=True),
    "job.submit": Operation("jobs.operations:submit_array", changes=True),
    "job.stop": Operation("jobs.stopping:stop", changes=True),
    "job.wait": Operation("jobs.following:follow_job", changes=False),
    "job.list": Operation("jobs.operations:list_jobs", changes=False),
    "checkpoints.prepare": Operation("jobs.resume:prepare", changes=True),
    "environment.probe": Operation("probes.environment:probe_environment", changes=True),
    "network.listen": Operation("probes.network:listen", changes=False),
    "network.reach": Operation("probes.network:reach", changes=False),
    "file.read": Operation("files.operations:read_file", changes=False),
    "file.exist": Operation("files.operations:exist", changes=False),
    "file.list": Operation("files.operations:list_files", changes=False),
    "events.read": Operation("output.events:read_events", changes=False),
    "log.read": Operation("output.logs:read_log", changes=False),
    "weights.list": Operation("checkpoints.weights:list_weights", changes=False),
    "weights.read": Operation("checkpoints.weights:read_weights", changes=False),
    "follow.events": Operation("jobs.following:follow_events", changes=False),
    "follow.log": Operation("jobs.following:follow_log", changes=False),
    "tree.survey": Operation("tree.operations:tree_survey", changes=False),
    "tree.manifest": Operation("tree.operations:tree_manifest", changes=False),
    "tree.receive": Operation("tree.operations:tree_receive", changes=True),
    "data.survey": Operation("tree.data:data_survey", changes=False),
    "data.receive": Operation("tree.data:data_receive", changes=True),
    "tree.rewrite": Operation("tree.rewrite:tree_rewrite", changes=True),
    "tree.undo": Operation("tree.rewrite:tree_undo", changes=True),
    "tree.scratch": Operation("tree.scratch:tree_scratch", changes=True),
    "scratch.remove": Operation("tree.scratch:scratch_remove", changes=True),
    "card.step": Operation("proof.card:step_card", changes=False),
    "proof.run": Operation("proof.operation:run_proof", changes=False),
    "file.write": Operation("files.operations:write_file", changes=True),
    "command.probe": Operation("files.operations:run_command", changes=False),
    "command.run": Operation("files.operations:run_command", changes=True),
    "fix.tokenizer.look": Operation("fix.tokenizer:look_at_tokenizers", changes=False),
    "fix.tokenizer.hub": Operation("fix.tokenizer:ask_hub", changes=False),
    "fix.tokenizer.replace": Operation("fix.tokenizer:replace_tokenizer_file", changes=True),
    "fix.collator.look": Operation("fix.collator:look_at_collator", changes=False),
    "fix.collator.replace": Operation("fix.collator:replace_collator", changes=True),
    "fix.processes.end": Operation("fix.processes:end_leftovers", changes=True),
    "fix.environment.create": Operation("fix.environment:create_environment", changes=True),
    "fix.hub.look": Operation("fix.hub_access:look_at_hub", changes=False),
    "fix.audio.look": Operation("fix.audio:look_at_audio", changes=False),
    "fix.packages.install": Operation("fix.packages:install_packages", changes=True),
    "fix.undo": Operation("fix.undo:undo", changes=True),
}
