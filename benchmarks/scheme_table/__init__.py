"""Every scheme at certified σ, the source's findings checked, and plots. Run as `python -m benchmarks.scheme_table --out FOLDER`."""
