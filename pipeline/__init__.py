"""The part of halfstep that runs on the laptop."""

__version__ = "0.1.0"
