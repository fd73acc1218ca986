"""Execution backends: how a compiled artifact is called."""
