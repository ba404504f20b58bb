//! Characters of fonts whose own map, or none, says which they are.
