"""The training scripts that exports contain; each runs as it is, next to its `config.json`, on made-up data."""
