"""Processes: how ranks are started, watched and ended together."""
