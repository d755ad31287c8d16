"""Recipes: graphs from real sources, each with a record of source, version, license and hashes.

Public: :func:`wordnet.wordnet`, :func:`debian.debian`, :func:`pairs.pairs`, :func:`amazon.amazon`, :func:`mag.mag`,
all of which return a :class:`prepared.PreparedGraph` to write. Preparing data is outside the privacy guarantee
(theory.md 2.2): WordNet and Debian are public, and other files are taken as they come.
"""
