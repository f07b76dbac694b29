"""The chat platforms that Holdfast speaks to. Each is loaded when it is used, and needs its extra."""
