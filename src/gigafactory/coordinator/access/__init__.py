"""Tokens, sign-in and the enrolment of factories."""
