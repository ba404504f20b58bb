//! Blanks between words, and none between letters that are spaced.
