"""How persons sign in besides tokens: the file that says so, and the provider that vouches for them."""
