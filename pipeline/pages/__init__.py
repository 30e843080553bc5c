"""One page for every name halfstep says: stages, fixers, checks, failures, cures, exit codes."""
