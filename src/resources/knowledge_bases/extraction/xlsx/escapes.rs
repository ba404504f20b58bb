//! Characters that XML does not have, as spreadsheets write them: `_x000D_`.

use std::borrow::Cow;

/// A text with the characters that are written by their codes in UTF-16: `_x` and four hexadecimal digits
/// and `_`, so that `_x005F_` is an underscore before what would be one. The end of a line is a line feed.
pub fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains("_x") {
        return Cow::Borrowed(text);
    }
    let (mut read, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("_x") {
        read.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some((c, after)) = escape(rest) else {
            read.push_str("_x");
            rest = &rest[2..];
            continue;
        };
        match c {
            '\r' if after.starts_with('\n') || unit(after) == Some(0xa) => {}
            '\r' => read.push('\n'),
            c => read.push(c),
        }
        rest = after;
    }
    read.push_str(rest);
    Cow::Owned(read)
}

/// The character that a text begins with as one or two codes, and what follows.
fn escape(text: &str) -> Option<(char, &str)> {
    let (first, second) = (unit(text)?, text.get(LENGTH..).and_then(unit));
    let is_half = (0xd800..0xdc00).contains(&first);
    let units = [first].into_iter().chain(second.filter(|_| is_half));
    let c = char::decode_utf16(units).next()?.ok()?;
    Some((c, &text[LENGTH * c.len_utf16()..]))
}

/// The bytes of one code.
const LENGTH: usize = "_x000D_".len();

/// The code that a text begins with.
fn unit(text: &str) -> Option<u16> {
    let digits = text.get(..LENGTH)?.strip_prefix("_x")?.strip_suffix('_')?;
    let is_code = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_code.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_characters_that_they_stand_for() {
        for (text, read) in [
            ("a_x000D_\nb_x000d_c_x000A_d_x000D__x000A_e", "a\nb\nc\nd\ne"),
            ("_x005F_x000D_ _x005F_", "_x000D_ _"),
            ("_x00E9_é_xD83D__xDE42_", "éé🙂"),
            ("_xD83D_a _xDE42_ _xD83D__x0041_", "_xD83D_a _xDE42_ _xD83D_A"),
            ("_x00_ _x+00D_ _x000é _x000D", "_x00_ _x+00D_ _x000é _x000D"),
            ("_x_x0041_ _X0041_ max_x", "_xA _X0041_ max_x"),
            ("", ""),
        ] {
            assert_eq!(unescaped(text), read, "{text}");
        }
    }
}
