"""Tests, in the layout of the sources; lab/ holds real servers and networks, faults/ breaks them."""
