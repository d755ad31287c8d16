"""``python -m reldp``: the same as the command ``reldp``.

>>> main.__module__
'reldp.cli.main'
"""

from reldp.cli.main import main

if __name__ == "__main__":
    main()
