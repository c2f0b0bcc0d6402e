"""Rules, policies and chains of iptables."""
