"""The work of a run, derived from a project, a host and a config: view, fixes, command, run id."""
