"""From strategy file to training run: batches, correlated noise and a sealed configuration, for several trainers."""
