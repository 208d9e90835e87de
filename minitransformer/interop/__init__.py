"""Weights and vocabularies of other projects, read and written without their libraries."""
