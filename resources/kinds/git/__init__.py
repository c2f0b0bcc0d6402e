"""Working copies and bare copies of git repositories, and values of git's configuration."""
