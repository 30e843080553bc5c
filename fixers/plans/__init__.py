"""Plans: made for a site file by file, remembered, shown, carried out on this machine and taken back."""
