"""Whole lives of an engine in virtual time: a plan says what happens, and rules check each step."""
