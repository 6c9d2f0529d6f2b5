"""What our company knows of its nodes, for zombiescope."""
