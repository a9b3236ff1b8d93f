"""`python -m tailback`: runs the command where its folder is not on the path."""

from tailback.cli import main

main()
