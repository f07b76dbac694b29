"""`python -m holdfast`: the same as the command `holdfast`."""

import sys

if __name__ == "__main__":
    # Python puts the current folder first; what lies there is not the program's to import.
    if not sys.flags.safe_path:
        del sys.path[0]

    from holdfast.cli.main import main

    main()
