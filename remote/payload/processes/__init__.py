"""Processes of this machine: told apart, started, ended."""
