"""From noisy statistics to estimates, and the noise of what is read."""
