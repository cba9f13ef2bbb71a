"""`python -m lbnn.cli` is `lbnn`."""

from lbnn.cli import main

if __name__ == "__main__":
    main()
