"""Real hosts on one machine: SSH servers, distance, bad lines and scripted cards. See README.md."""
