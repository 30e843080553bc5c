"""The machine, its cards and the interpreter that trains, looked at."""
