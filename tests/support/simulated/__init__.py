"""Whole lives of an engine in virtual time: a plan says what happens, rules say what must hold after each step."""
