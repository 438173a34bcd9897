"""The experiments of arXiv 2601.21636 for balls-in-bins. Run as `python -m benchmarks.balls_in_bins [EXPERIMENT …] --out FOLDER`."""
