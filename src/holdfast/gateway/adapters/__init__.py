"""The adapters, one for each chat platform. Each is imported only when its platform is set up."""
