"""Drawings of structure, each shown where it is first needed."""
