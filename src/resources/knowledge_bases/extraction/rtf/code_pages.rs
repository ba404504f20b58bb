//! The code pages of RTF: those of Windows and others that the web has, and three of DOS.

use encoding_rs::{Encoding, MACINTOSH, WINDOWS_1252};

use super::super::charset::of_code_page;

/// What the bytes of a text are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodePage {
    Encoding(&'static Encoding),
    /// Of DOS: ASCII, and the characters of these bytes from 128 on.
    Dos(&'static [char; 128]),
    /// One of this number, which is not known here: it is read as Western European.
    Unknown(i32),
}

impl CodePage {
    /// That of files and fonts that do not say theirs.
    pub const DEFAULT: CodePage = CodePage::Encoding(WINDOWS_1252);
    /// That of old Macintosh computers.
    pub const MAC: CodePage = CodePage::Encoding(MACINTOSH);
    /// That of DOS in the United States.
    pub const PC: CodePage = CodePage::Dos(&PC_437);
    /// That of DOS in Western Europe.
    pub const PC_MULTILINGUAL: CodePage = CodePage::Dos(&PC_850);

    /// The one with the number that Windows gives it.
    pub fn numbered(number: i32) -> Self {
        match number {
            0 | 1 => CodePage::DEFAULT, // That of the system.
            437 => CodePage::PC,
            850 => CodePage::PC_MULTILINGUAL,
            858 => CodePage::Dos(&PC_858),
            number => of_code_page(number).map_or(CodePage::Unknown(number), CodePage::Encoding),
        }
    }

    /// That of a font by the number of its character set; none for the one of the file.
    pub fn of_charset(charset: i32) -> Option<Self> {
        let number = match charset {
            77 => 10_000,
            128 => 932,
            129 => 949,
            130 => 1361,
            134 => 936,
            136 => 950,
            161 => 1253,
            162 => 1254,
            163 => 1258,
            177 => 1255,
            178 => 1256,
            186 => 1257,
            204 => 1251,
            222 => 874,
            238 => 1250,
            254 | 255 => 437,
            _ => return None,
        };
        Some(CodePage::numbered(number))
    }

    /// The text of these bytes.
    pub fn decoded(self, bytes: &[u8]) -> String {
        let encoding = match self {
            CodePage::Encoding(encoding) => encoding,
            CodePage::Unknown(_) => WINDOWS_1252,
            CodePage::Dos(upper) => {
                let character = |byte: &u8| match byte.checked_sub(128) {
                    None => char::from(*byte),
                    Some(at) => upper[usize::from(at)],
                };
                return bytes.iter().map(character).collect();
            }
        };
        encoding.decode_without_bom_handling(bytes).0.into_owned()
    }
}

/// The upper half of code page 437.
const PC_437: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'ï', 'î', 'ì', 'Ä', 'Å', 'É', 'æ', 'Æ',
    'ô', 'ö', 'ò', 'û', 'ù', 'ÿ', 'Ö', 'Ü', '¢', '£', '¥', '₧', 'ƒ', 'á', 'í', 'ó', 'ú', 'ñ', 'Ñ',
    'ª', 'º', '¿', '⌐', '¬', '½', '¼', '¡', '«', '»', '░', '▒', '▓', '│', '┤', '╡', '╢', '╖', '╕',
    '╣', '║', '╗', '╝', '╜', '╛', '┐', '└', '┴', '┬', '├', '─', '┼', '╞', '╟', '╚', '╔', '╩', '╦',
    '╠', '═', '╬', '╧', '╨', '╤', '╥', '╙', '╘', '╒', '╓', '╫', '╪', '┘', '┌', '█', '▄', '▌', '▐',
    '▀', 'α', 'ß', 'Γ', 'π', 'Σ', 'σ', 'µ', 'τ', 'Φ', 'Θ', 'Ω', 'δ', '∞', 'φ', 'ε', '∩', '≡', '±',
    '≥', '≤', '⌠', '⌡', '÷', '≈', '°', '∙', '·', '√', 'ⁿ', '²', '■', '\u{a0}',
];

/// The upper half of code page 850.
const PC_850: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'ï', 'î', 'ì', 'Ä', 'Å', 'É', 'æ', 'Æ',
    'ô', 'ö', 'ò', 'û', 'ù', 'ÿ', 'Ö', 'Ü', 'ø', '£', 'Ø', '×', 'ƒ', 'á', 'í', 'ó', 'ú', 'ñ', 'Ñ',
    'ª', 'º', '¿', '®', '¬', '½', '¼', '¡', '«', '»', '░', '▒', '▓', '│', '┤', 'Á', 'Â', 'À', '©',
    '╣', '║', '╗', '╝', '¢', '¥', '┐', '└', '┴', '┬', '├', '─', '┼', 'ã', 'Ã', '╚', '╔', '╩', '╦',
    '╠', '═', '╬', '¤', 'ð', 'Ð', 'Ê', 'Ë', 'È', 'ı', 'Í', 'Î', 'Ï', '┘', '┌', '█', '▄', '¦', 'Ì',
    '▀', 'Ó', 'ß', 'Ô', 'Ò', 'õ', 'Õ', 'µ', 'þ', 'Þ', 'Ú', 'Û', 'Ù', 'ý', 'Ý', '¯', '´', '\u{ad}',
    '±', '‗', '¾', '¶', '§', '÷', '¸', '°', '¨', '·', '¹', '³', '²', '■', '\u{a0}',
];

/// The upper half of code page 858: that of 850 with the sign of the euro.
const PC_858: [char; 128] = {
    let mut upper = PC_850;
    upper[0xd5 - 0x80] = '€';
    upper
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_pages_are_known_by_their_numbers() {
        for (number, bytes, text) in [
            (437, b"caf\x82 \x9b\xe1\xff".as_slice(), "café ¢ß\u{a0}"),
            (850, b"caf\x82 \xb5\x9d\xd5\xff", "café ÁØı\u{a0}"),
            (858, b"1 \xd5", "1 €"),
            (866, b"\x8f\xe0", "Пр"),
            (1250, b"\xb3", "ł"),
            (28_592, b"\xb3", "ł"),
            (0, b"caf\xe9", "café"),
        ] {
            assert_eq!(CodePage::numbered(number).decoded(bytes), text, "{number}");
        }
        assert_eq!(CodePage::numbered(852), CodePage::Unknown(852));
        assert_eq!(CodePage::numbered(-1), CodePage::Unknown(-1));
        assert_eq!(CodePage::numbered(852).decoded(b"caf\xe9"), "café");
    }
}
