"""From noisy statistics to estimates: shrinkage, projections, centering, and the noise of what is read."""
