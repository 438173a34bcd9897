"""Monte Carlo accounting: sampled log likelihood ratios, the pilot estimate, and histograms for plain sampling (JAX, float64)."""
