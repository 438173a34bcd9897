"""How people start bandsmith: the command line, which parses, calls and prints, and nothing else."""
