"""One module for each chat platform, loaded when an account of that platform is set up."""
