"""Processes that train together: how they start, find each other, are watched, and end together."""
