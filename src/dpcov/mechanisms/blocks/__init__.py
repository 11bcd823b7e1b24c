"""Building blocks of private mechanisms, each usable on its own; ``blocks.md`` holds their proofs."""
