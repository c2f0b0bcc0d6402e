"""`python -m holdfast`: the command line, where the script is not on the path."""

from holdfast.agent.cli.main import main

if __name__ == "__main__":
    main()
