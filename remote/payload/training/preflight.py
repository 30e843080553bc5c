"""Check every clip and compute its features, before any weight is loaded."""

from __future__ import annotations

import logging
import os
from typing import Callable, List, Sequence

from remote.payload.training.audio import decode, judge_clip, resample
from remote.payload.training.base_model import BaseModel
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.features import Clip, FeatureCache, extractor_settings
from remote.payload.training.recordings import Recording
from remote.protocol.dataclass import dataclass
from remote.protocol.training import TrainingSpec

SHOWN = 5
log = logging.getLogger("halfstep")


@dataclass
class ClipReader:
    """Returns the features of a recording from the cache.

    If the features are not in the cache, the audio is decoded and checked, and its features are stored.
    """

    base: BaseModel
    cache: FeatureCache
    shortest_s: float = 0.1
    longest_s: float = 30.0

    def __call__(self, recording: Recording) -> Clip:
        audio = recording.read()
        cached = self.cache.read(audio)
        if cached is not None:
            return cached
        samples = resample(*decode(audio))
        problem = judge_clip(samples, self.shortest_s, self.longest_s)
        if problem is not None:
            raise ValueError(problem)
        clip = self.base.family.extract(self.base.extractor, samples)
        self.cache.write(audio, clip)
        return clip


def clip_reader(base: BaseModel, spec: TrainingSpec) -> ClipReader:
    """Return the reader of a run's clips. The cache is separate for each pair of duration limits."""
    shortest, longest = spec.data.min_seconds, spec.data.max_seconds
    limits = "" if (shortest, longest) == (ClipReader.shortest_s, ClipReader.longest_s) else f":{shortest}:{longest}"
    settings = extractor_settings(base.family.family, base.extractor) + limits
    window = base.family.longest_s(base.extractor)
    longest = longest if window is None else min(longest, window)
    return ClipReader(base, FeatureCache(os.path.join(spec.paths.cache, "features"), settings), shortest, longest)


def usable_recordings(
    recordings: Sequence[Recording], clip_of: Callable[[Recording], Clip], max_skipped: int
) -> List[Recording]:
    """Read all clips and return the recordings whose clips can be used. The other recordings are listed in the output.

    Raises TrainingFailed with this list if it has more than `max_skipped` recordings.
    """
    usable: List[Recording] = []
    problems: List[str] = []
    for recording in recordings:
        try:
            clip_of(recording)
            usable.append(recording)
        except (ValueError, OSError) as error:
            problems.append(f"{recording.id} {error}")
    if len(problems) > max_skipped:
        listed = "; ".join(problems[:SHOWN]) + ("; ..." if len(problems) > SHOWN else "")
        allowed = f", and data.max_skipped is {max_skipped}" if max_skipped else ""
        raise TrainingFailed(
            "data-clips", f"{len(problems)} of {len(recordings)} clips cannot be used{allowed}: {listed}"
        )
    for problem in problems:
        log.warning("skipped: %s", problem)
    return usable
