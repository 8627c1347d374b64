"""Run the command line as ``python -m multidomain``."""

from multidomain.cli import main

if __name__ == "__main__":
    main()
