"""HTTP plumbing of the API: requests, responses, errors, streams, OpenAPI."""
