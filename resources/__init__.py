"""What each kind of thing is: how to look at it, put it right, watch it."""
