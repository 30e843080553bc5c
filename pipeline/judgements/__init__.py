"""Pure checks: of a host, of its interpreter, of the end of a job, of code and its paths."""
