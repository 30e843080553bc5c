"""Pure checks of a host and its interpreter, of the end of a job, and of the project's code and paths."""
