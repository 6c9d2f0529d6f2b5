"""`kubectl zombiescope`: the cluster's nodes from where kubectl is. Standard library only; kubectl asks for us."""
