"""Training data, training and evaluation of `tailback pcap identify`: see `validation/identify.toml`."""
