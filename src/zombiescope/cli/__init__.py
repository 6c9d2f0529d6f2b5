"""One verb a file: add_args(parser), run(args)."""
