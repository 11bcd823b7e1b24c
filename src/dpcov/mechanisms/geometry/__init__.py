"""Find the geometry of a release privately: centers, scales, a linear map and a length of rows."""
