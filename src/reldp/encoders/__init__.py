"""Encoders of entities: text or dense features in, embeddings out; scores and losses on them."""
