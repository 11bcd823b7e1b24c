"""What the analyst gets: models on one release against models that each pay for themselves."""
