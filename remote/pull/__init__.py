"""What comes home from a host: event files, output and adapters, under names that cannot leave their folder."""
