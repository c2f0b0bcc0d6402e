"""ufw, the firewall of Ubuntu: its switch, its defaults and its rules, with the states of the public ufw-formula."""
