"""The package requirements of the built-in trainer, identical to the extra `train`."""

from __future__ import annotations

from collections.abc import Iterable

TRAINER_REQUIREMENTS = {
    "accelerate": "accelerate>=1.10",
    "datasets": "datasets>=4",
    "numpy": "numpy>=2",
    "peft": "peft>=0.18",
    "soundfile": "soundfile>=0.13",
    "soxr": "soxr>=1",
    "tensorboard": "tensorboard>=2.21",
    "torch": "torch>=2.6",
    "transformers": "transformers>=5",
}


def requirements_for(packages: Iterable[str]) -> tuple[str, ...]:
    """Return the packages with the version bounds that the trainer needs."""
    return tuple(TRAINER_REQUIREMENTS[name] for name in packages)
