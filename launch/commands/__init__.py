"""One module per command; each imports what it calls inside the command, so that `bandsmith --help` stays instant."""
