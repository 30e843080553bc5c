"""The laptop: order, memory, words."""

__version__ = "0.1.0"
