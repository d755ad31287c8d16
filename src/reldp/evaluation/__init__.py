"""How well embeddings predict relations: ranking protocols, metrics and their intervals."""
