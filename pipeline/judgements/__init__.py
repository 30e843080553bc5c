"""Pure checks of a host, its interpreter, the end of a job, and the project's code and paths."""
