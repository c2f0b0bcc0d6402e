"""Plugins: processes that provide remote resources, which a package of the IDL declares."""
