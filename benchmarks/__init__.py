"""Pinned workloads with their peers, one command each."""
