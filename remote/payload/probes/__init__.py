"""Probes of the machine, its GPUs and the interpreter that trains."""
