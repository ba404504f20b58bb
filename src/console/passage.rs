//! Passages that a search has found, with the words of the query in them.

use serde::Deserialize;

/// A word of the query in a passage, in characters.
#[derive(Deserialize)]
pub struct Highlight {
    start: usize,
    end: usize,
}

/// Returns a passage in pieces, with whether each is a word of the query.
pub fn pieces(passage: &str, highlights: &[Highlight]) -> Vec<(bool, String)> {
    let letters: Vec<char> = passage.chars().collect();
    let piece = |from: usize, to: usize| -> String {
        letters.iter().skip(from).take(to.saturating_sub(from)).collect()
    };
    let mut pieces = Vec::new();
    let mut at = 0;
    for Highlight { start, end } in highlights {
        pieces.push((false, piece(at, *start)));
        pieces.push((true, piece(*start, *end)));
        at = *end;
    }
    pieces.push((false, piece(at, letters.len())));
    pieces
}
