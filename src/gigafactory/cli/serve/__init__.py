"""Commands that run or check this installation."""
