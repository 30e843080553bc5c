"""Processes of this machine: identified, started, ended."""
