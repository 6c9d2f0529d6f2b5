"""One kernel source a file: EVERY, GIVES, read(host), parse(text)."""
