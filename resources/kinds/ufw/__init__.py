"""ufw, the firewall of Ubuntu: whether it is on, its defaults and its rules, as the public ufw-formula has them."""
