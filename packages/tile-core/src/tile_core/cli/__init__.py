"""The ``tile`` program. Its subcommands are found through the entry points ``tile.commands``."""
