"""What we cost, always as a ratio against a peer in the same run: machines are noisy, ratios are not."""
