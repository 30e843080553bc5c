"""The six stages, in the order in which they run."""

from __future__ import annotations

from pipeline.stages.environment import Environment
from pipeline.stages.fix import Fix
from pipeline.stages.logs import Logs
from pipeline.stages.stage import Stage
from pipeline.stages.sync import Sync
from pipeline.stages.train import Train
from pipeline.stages.verify import Verify

STAGES: tuple[Stage, ...] = (Sync(), Environment(), Fix(), Verify(), Train(), Logs())
STAGE_NAMES = tuple(stage.name for stage in STAGES)
