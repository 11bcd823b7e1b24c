"""Read a release: from its statistics to moments in encoded and in original units."""
