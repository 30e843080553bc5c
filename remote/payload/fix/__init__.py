"""What setup fixers do on a host, written down so that it can be taken back."""
