"""Tables, chains, policies and rules of nftables."""
