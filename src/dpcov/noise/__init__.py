"""Where randomness comes from: entropy and exact samplers. Knows nothing of rows."""
