"""Filters and tests of templates beyond Jinja's own. `table` has all of them."""
