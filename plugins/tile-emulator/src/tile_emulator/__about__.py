"""Version of this distribution, read by hatchling when it builds."""

__version__ = "0.2.0"
