"""Projects: the loader, the handler API, fixtures and conventions."""
