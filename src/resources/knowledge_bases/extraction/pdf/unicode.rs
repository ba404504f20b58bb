//! Codes that are characters: of the predefined encodings of composite fonts that are named for Unicode,
//! and what characters for private use stand for.

use hayro_cmap::{CMapName, load_embedded};

/// How the codes of an encoding are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Utf8,
    /// UCS-2 too: it has no surrogates.
    Utf16,
    Utf32,
}

impl Form {
    /// Returns the form of a predefined encoding with this name, such as `UniGB-UTF8-H`. None of those whose
    /// codes everybody's tables have.
    pub fn named(name: &[u8]) -> Option<Self> {
        let mut parts = name.strip_prefix(b"Uni")?.split(|byte| *byte == b'-');
        let form = match parts.nth(1)? {
            b"UTF8" => Form::Utf8,
            b"UCS2" | b"UTF16" => Form::Utf16,
            b"UTF32" => Form::Utf32,
            _ => return None,
        };
        let has_direction = matches!(parts.next_back()?, b"H" | b"V");
        let is_known = load_embedded(CMapName::from_bytes(name)).is_some();
        (has_direction && !is_known).then_some(form)
    }

    /// Returns the character at a position of a string, unless there is none, and of how many bytes it is.
    pub fn read(self, bytes: &[u8], at: usize) -> (Option<char>, usize) {
        let rest = bytes.get(at..).unwrap_or_default();
        let most = &rest[..rest.len().min(4)];
        match self {
            Form::Utf8 => match most.utf8_chunks().next() {
                Some(chunk) => match chunk.valid().chars().next() {
                    Some(c) => (Some(c), c.len_utf8()),
                    None => (None, chunk.invalid().len().max(1)),
                },
                None => (None, 1),
            },
            Form::Utf16 => {
                let (units, _) = most.as_chunks::<2>();
                let units = units.iter().map(|unit| u16::from_be_bytes(*unit));
                match char::decode_utf16(units).next() {
                    Some(Ok(c)) => (Some(c), 2 * c.len_utf16()),
                    _ => (None, 2),
                }
            }
            Form::Utf32 => {
                let code = most.first_chunk().map(|code| u32::from_be_bytes(*code));
                (code.and_then(char::from_u32), 4)
            }
        }
    }
}

/// Returns a table for the numbers of the glyphs of such an encoding, by codes of UTF-16: that of the same
/// collection that everybody has, which differs in few glyphs, or one that makes a number of each code.
pub fn table(name: CMapName) -> Option<&'static [u8]> {
    let bytes = name.to_bytes();
    Form::named(bytes)?;
    let is_vertical = bytes.ends_with(b"V");
    let (horizontal, vertical) = match bytes.get(3..5)? {
        b"JI" => (CMapName::UniJisUtf16H, CMapName::UniJisUtf16V),
        b"GB" => (CMapName::UniGbUtf16H, CMapName::UniGbUtf16V),
        b"CN" => (CMapName::UniCnsUtf16H, CMapName::UniCnsUtf16V),
        b"KS" => (CMapName::UniKsUtf16H, CMapName::UniKsUtf16V),
        _ => (CMapName::IdentityH, CMapName::IdentityV),
    };
    load_embedded(if is_vertical { vertical } else { horizontal })
}

/// Returns a character as a code of UTF-16.
pub fn utf16(c: char) -> u32 {
    let mut units = [0; 2];
    c.encode_utf16(&mut units).iter().fold(0, |code, unit| code << 16 | u32::from(*unit))
}

/// Returns the character that is this code of UTF-16.
pub fn char(code: u32) -> Option<char> {
    match u16::try_from(code) {
        Ok(_) => char::from_u32(code),
        Err(_) => {
            let [a, b, c, d] = code.to_be_bytes();
            let units = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
            char::decode_utf16(units).next()?.ok().filter(|c| c.len_utf16() == 2)
        }
    }
}

/// Returns a text without what is in none, unless a part of it is no character that everybody knows.
pub fn readable(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|c| *c != '\0').collect();
    let is_unknown = |c| is_private(c) || matches!(c, '\u{fffd}'..='\u{ffff}');
    (!text.is_empty() && !text.contains(is_unknown)).then_some(text)
}

/// Whether everybody uses a character as they like.
pub fn is_private(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..)
}

/// Returns the code in a font of symbols that a character for private use stands for.
pub fn code_of_symbol(c: char) -> Option<u32> {
    matches!(c, '\u{f020}'..='\u{f0ff}').then(|| u32::from(c) - 0xf000)
}

/// Returns what is drawn for a code of the font Wingdings: bullets and marks. Others are pictures.
pub fn wingdings(code: u32) -> Option<char> {
    let sign = match code {
        0x6c => '●',
        0x6e => '■',
        0x6f | 0xa8 => '☐',
        0x71 => '❑',
        0x72 => '❒',
        0x75 => '◆',
        0x76 => '❖',
        0x9f => '•',
        0xa7 => '▪',
        0xd8 => '➢',
        0xe0 => '→',
        0xfb => '✗',
        0xfc => '✓',
        0xfd => '☒',
        0xfe => '☑',
        _ => return None,
    };
    Some(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_those_of_encodings_that_are_not_known_by_tables() {
        for (name, form) in [
            ("UniJIS2004-UTF16-H", Some(Form::Utf16)),
            ("UniJISPro-UCS2-HW-V", Some(Form::Utf16)),
            ("UniGB-UTF8-V", Some(Form::Utf8)),
            ("UniAKR-UTF32-H", Some(Form::Utf32)),
            ("UniGB-UTF16-H", None),
            ("UniGB-UTF7-H", None),
            ("UniGB-UTF8", None),
            ("UniGB-UTF8-X", None),
            ("Uni", None),
            ("GB-EUC-H", None),
        ] {
            assert_eq!(Form::named(name.as_bytes()), form, "{name}");
            let table = table(CMapName::from_bytes(name.as_bytes()));
            assert_eq!(table.is_some(), form.is_some(), "{name}");
        }
    }

    #[test]
    fn each_form_is_read_and_what_is_wrong_is_passed() {
        let all = |form: Form, bytes: &[u8]| {
            let (mut at, mut read) = (0, String::new());
            while at < bytes.len() {
                let (c, len) = form.read(bytes, at);
                read.push(c.unwrap_or('?'));
                at += len;
            }
            read
        };
        assert_eq!(all(Form::Utf8, "aé北😀\u{0}".as_bytes()), "aé北😀\0");
        assert_eq!(all(Form::Utf8, b"\xff\xe5\x8cb\xe5"), "??b?");
        let units = b"\0a\x53\x17\xd8\x3d\xde\0\xd8\x3d\0b\xde\0\0";
        assert_eq!(all(Form::Utf16, units), "a北😀?b??");
        assert_eq!(all(Form::Utf32, b"\0\0\0a\0\x01\xf6\0\0\x11\0\0\0\0\xd8\0\0"), "a😀???");
        assert_eq!((utf16('a'), utf16('😀')), (0x61, 0xd83d_de00));
        assert_eq!((char(0x61), char(0xd83d_de00)), (Some('a'), Some('😀')));
        assert_eq!((char(0xd83d), char(u32::MAX)), (None, None));
    }

    #[test]
    fn texts_with_what_everybody_uses_as_they_like_are_none() {
        for (text, read) in [
            ("fi", Some("fi")),
            ("a\0", Some("a")),
            ("", None),
            ("\0", None),
            ("\u{fffd}", None),
            ("\u{ffff}", None),
            ("a\u{e041}", None),
            ("\u{100000}", None),
        ] {
            assert_eq!(readable(text).as_deref(), read, "{text:?}");
        }
    }
}
