"""The command line: one module for each group of verbs; a verb parses, calls one function, prints."""
