"""The pages as HTTP gives them; what needs a browser is in tests/browser."""
