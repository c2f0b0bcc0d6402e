"""`holdfast serve`: a process of its own that reads the socket for viewers and speaks HTTP."""
