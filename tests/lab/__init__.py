"""Real hosts on one machine: SSH servers, networks with delay and faults, scripted cards. See README.md."""
