"""The filters and tests that templates have beyond Jinja's own. `table` has all of them."""
