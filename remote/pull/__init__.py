"""Download event files, output and adapters from a host. A hostile file name cannot lead out of their folder."""
