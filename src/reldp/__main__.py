"""``python -m reldp``: the same as the command ``reldp``.

>>> main.__module__
'reldp._entry'
"""

from reldp._entry import main

if __name__ == "__main__":
    main()
