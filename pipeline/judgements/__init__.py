"""Pure judgements: of a host, of a trial of its interpreter, of how a job ended, of what code asks for."""
