"""Salt's execution functions, expressed by the functions of interfaces."""
