"""The sensitive side: schema, sources, encoding and exact moments."""
