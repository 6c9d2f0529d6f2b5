"""At home in Kubernetes: a small API client, node conditions and events. Standard library only."""
