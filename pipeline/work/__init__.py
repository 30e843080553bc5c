"""The work that a project, a host and a config mean: one view of all three, its fixes, its command, its run's id."""
