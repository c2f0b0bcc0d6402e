"""Generators that read the model: pages of documentation, and JSON schemas for editors. No run imports them."""
