"""What a request costs the sandbox, a bare ASGI function and Stoplight Prism, side by side."""
