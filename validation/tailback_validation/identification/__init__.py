"""What `tailback pcap identify` is trained on, how, and how well it does: see `validation/identify.toml`."""
