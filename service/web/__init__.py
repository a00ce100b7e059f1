"""REST, OpenAPI and health."""
