"""Commands that test reliability at length."""
