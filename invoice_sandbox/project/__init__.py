"""What is served: the loader, the handler API, fixtures and conventions of a project."""
