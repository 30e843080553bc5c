"""Tests, in the layout of the sources. lab/ has real servers and networks, faults/ tests their failures."""
