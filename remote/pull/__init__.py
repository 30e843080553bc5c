"""Pull event files, output and adapters from a host, under names that cannot leave their folder."""
