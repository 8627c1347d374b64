"""Run the command line as ``python -m multidomain``."""

from multidomain.cli.main import main

if __name__ == "__main__":
    main()
