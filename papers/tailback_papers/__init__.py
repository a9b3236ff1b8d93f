"""Five papers as code, and what they leave open: studies that `tailback study` finds by their entry points."""
