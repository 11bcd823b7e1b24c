"""Building blocks of private mechanisms; ``blocks.md`` holds their proofs."""
