"""One call of a resource: guards, check_apply or refresh. Exceptions of kinds end here."""
