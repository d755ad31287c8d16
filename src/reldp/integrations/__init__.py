"""Graphs from and to the libraries that people keep their data in; each module can be imported alone.

    tables           whatever can be read as an Arrow table: pandas, Polars, Hugging Face datasets
    pandas           two data frames
    polars, datasets   results as data frames of Polars, as Hugging Face datasets
    networkx, scipy, pyg   graphs of networkx, sparse matrices, PyTorch Geometric
    sentence_transformers  a trainer of SentenceTransformers

`EntityGraph.from_...` and `EntityGraph.to_...` call these modules; nothing else in reldp imports
them. Each library is imported only by the function that uses it; the trainer needs its library to be
imported at all.

>>> from reldp.integrations.scipy import from_scipy
>>> from_scipy.__module__
'reldp.integrations.scipy'
"""
