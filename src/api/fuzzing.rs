//! Cursors of lists.

use super::common_params::{cursor as cursor_of, read_cursor};

/// A text is the cursor of a list exactly if the server has made it for a position of that list.
///
/// # Panics
/// If that is not so.
pub fn cursor(input: &[u8]) {
    let (list, other) = ([1; 32], [2; 32]);
    if let Ok(text) = std::str::from_utf8(input)
        && let Some(position) = read_cursor(&list, text)
    {
        assert_eq!(cursor_of(&list, &position), text);
        assert_eq!(read_cursor(&other, text), None, "it is of one list");
    }
    let text = cursor_of(&list, input);
    assert_eq!(read_cursor(&list, &text).as_deref(), Some(input));
    assert_eq!(read_cursor(&other, &text), None, "it is of one list");
    let Some(at) = input.first().map(|first| usize::from(*first) % text.len()) else { return };
    let other_char = if text[at..].starts_with('A') { "B" } else { "A" };
    let changed = [&text[..at], other_char, &text[at + 1..]].concat();
    assert_eq!(read_cursor(&list, &changed), None, "character {at} is another");
}
