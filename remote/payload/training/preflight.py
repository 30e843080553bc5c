"""Checking every clip and computing its features, before any weight is loaded."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence

from remote.payload.training.audio import decode, judge_clip
from remote.payload.training.base_model import BaseModel
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.features import Clip, FeatureCache
from remote.payload.training.recordings import Recording

SHOWN = 5
log = logging.getLogger("halfstep")


@dataclass
class ClipReader:
    """Returns a recording's clip: from the cache, otherwise decoded, checked, computed and stored."""

    base: BaseModel
    cache: FeatureCache

    def __call__(self, recording: Recording) -> Clip:
        audio = recording.read()
        cached = self.cache.read(audio)
        if cached is not None:
            return cached
        samples, rate = decode(audio)
        problem = judge_clip(samples, rate)
        if problem is not None:
            raise ValueError(problem)
        clip = self.base.family.extract(self.base.extractor, samples)
        self.cache.write(audio, clip)
        return clip


def check_clips(recordings: Sequence[Recording], clip_of: Any) -> Dict[str, int]:
    """Read all clips and return how many clips and frames there are. Raises TrainingFailed, naming unusable clips."""
    problems: List[str] = []
    frames = 0
    for recording in recordings:
        try:
            frames += clip_of(recording).valid
        except (ValueError, OSError) as error:
            problems.append(f"{recording.id} {error}")
    if problems:
        shown = "; ".join(problems[:SHOWN]) + ("; ..." if len(problems) > SHOWN else "")
        raise TrainingFailed("data-clips", f"{len(problems)} of {len(recordings)} clips cannot be used: {shown}")
    return {"clips": len(recordings), "frames": frames}
