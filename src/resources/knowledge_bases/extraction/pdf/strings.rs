//! Text strings of PDF: what people have written into fields and notes.

/// Characters of PDFDocEncoding between 0x18 and 0x1f and between 0x80 and 0xa0, which are not those
/// of Latin-1 (ISO 32000-2, annex D.2).
const ACCENTS: &str = "˘ˇˆ˙˝˛˚˜";
const SIGNS: &str = "•†‡…—–ƒ⁄‹›−‰„“”‘’‚™ﬁﬂŁŒŠŸŽıłœšž\u{fffd}€";

/// Returns the text of a string: UTF-16 or UTF-8 with a mark, or PDFDocEncoding.
pub fn text(bytes: &[u8]) -> String {
    match bytes {
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into(),
        _ => bytes.iter().map(|byte| own(*byte)).collect(),
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let (pairs, _) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

fn own(byte: u8) -> char {
    let special = match byte {
        0x18..=0x1f => ACCENTS.chars().nth(usize::from(byte - 0x18)),
        0x80..=0xa0 => SIGNS.chars().nth(usize::from(byte - 0x80)),
        _ => None,
    };
    special.unwrap_or(char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_string_is_read() {
        assert_eq!(text(b"\xfe\xff\x00a\x20\xac\xd8\x3d\xde\x00"), "a€😀");
        assert_eq!(text(b"\xff\xfea\x00\xac\x20"), "a€");
        assert_eq!(text(b"\xef\xbb\xbfa\xe2\x82\xac"), "a€");
        assert_eq!(text(b"caf\xe9 \x84 \xa0 \x92 \x9e \x1f"), "café — € ™ ž ˜");
    }
}
