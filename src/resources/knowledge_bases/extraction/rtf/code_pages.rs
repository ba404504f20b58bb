//! The code pages of RTF: those of Windows and others that the web has, and those of DOS.

use encoding_rs::{Encoding, MACINTOSH, WINDOWS_1252};

use super::super::charset::of_code_page;
use super::dos;

/// The character set of fonts whose bytes are those of DOS where the file was written.
pub const DOS_CHARSET: i32 = 255;

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
    pub const PC: CodePage = CodePage::Dos(&dos::PC_437);
    /// That of DOS in Western Europe.
    pub const PC_MULTILINGUAL: CodePage = CodePage::Dos(&dos::PC_850);

    /// The one with the number that Windows gives it.
    pub fn numbered(number: i32) -> Self {
        match number {
            0 | 1 => CodePage::DEFAULT, // That of the system.
            437 => CodePage::PC,
            850 => CodePage::PC_MULTILINGUAL,
            720 => CodePage::Dos(&dos::PC_720),
            737 => CodePage::Dos(&dos::PC_737),
            775 => CodePage::Dos(&dos::PC_775),
            852 => CodePage::Dos(&dos::PC_852),
            855 => CodePage::Dos(&dos::PC_855),
            857 => CodePage::Dos(&dos::PC_857),
            858 => CodePage::Dos(&dos::PC_858),
            860 => CodePage::Dos(&dos::PC_860),
            861 => CodePage::Dos(&dos::PC_861),
            862 => CodePage::Dos(&dos::PC_862),
            863 => CodePage::Dos(&dos::PC_863),
            865 => CodePage::Dos(&dos::PC_865),
            869 => CodePage::Dos(&dos::PC_869),
            number => of_code_page(number).map_or(CodePage::Unknown(number), CodePage::Encoding),
        }
    }

    /// That of DOS on the computer on which a file was written: by the number of its code page of Windows
    /// and the number that Windows gives its language, if it says them.
    pub fn of_dos(windows: Option<i32>, language: Option<i32>) -> Self {
        let number = match windows {
            Some(1250) => 852,
            Some(1251) => 866,
            Some(1253) => 737,
            Some(1254) => 857,
            Some(1255) => 862,
            Some(1256) => 720,
            Some(1257) => 775,
            // They are used as both.
            Some(both @ (866 | 874 | 932 | 936 | 949 | 950 | 1258)) => both,
            Some(1252) => western(language),
            _ => language.map_or(437, of_language),
        };
        CodePage::numbered(number)
    }

    /// That of a font by the number of its character set; none for the one of the file, or of DOS
    /// ([`DOS_CHARSET`]).
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
            254 => 437,
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

/// The code page of DOS for a language by its number, beside the one of Windows for Western Europe.
fn western(language: Option<i32>) -> i32 {
    match language {
        None | Some(0 | 0x400 | 0x409) => 437, // None, that of the system, English in the United States.
        Some(_) => 850,
    }
}

/// The code page of DOS for a language by its number, of which the lower bits are without the country.
fn of_language(language: i32) -> i32 {
    match (language & 0x3ff, language) {
        (0x01 | 0x20 | 0x29, _) => 720,
        (0x04, 0x0404 | 0x0c04 | 0x1404) => 950,
        (0x04, _) => 936,
        (0x08, _) => 737,
        (0x0d, _) => 862,
        (0x11, _) => 932,
        (0x12, _) => 949,
        (0x1a, 0x0c1a | 0x1c1a) => 855,
        (0x05 | 0x0e | 0x15 | 0x18 | 0x1a | 0x1b | 0x1c | 0x24, _) => 852,
        (0x02 | 0x19 | 0x22 | 0x23 | 0x2f, _) => 866,
        (0x1e, _) => 874,
        (0x1f, _) => 857,
        (0x25..=0x27, _) => 775,
        (0x2a, _) => 1258,
        _ => western(Some(language)),
    }
}

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
        assert_eq!(CodePage::numbered(853), CodePage::Unknown(853));
        assert_eq!(CodePage::numbered(-1), CodePage::Unknown(-1));
        assert_eq!(CodePage::numbered(853).decoded(b"caf\xe9"), "café");
    }

    #[test]
    fn the_code_page_of_dos_is_that_beside_the_one_of_windows_or_of_the_language() {
        let of = |windows: Option<i32>, language: Option<i32>, bytes: &[u8]| {
            let page = CodePage::of_dos(windows, language);
            assert!(!matches!(page, CodePage::Unknown(_)), "{windows:?} {language:?}");
            page.decoded(bytes)
        };
        for (windows, language, bytes, text) in [
            (1250, 1029, b"\xfd\xa7".as_slice(), "řž"),
            (1251, 1049, b"\xe0\xa0", "ра"),
            (1252, 1031, b"\x9b", "ø"),
            (1252, 1033, b"\x9b", "¢"),
            (1253, 1032, b"\x98", "α"),
            (1254, 1055, b"\xa7", "ğ"),
            (1255, 1037, b"\x80", "א"),
            (1256, 1025, b"\xa0", "ب"),
            (1257, 1063, b"\xd8", "ž"),
            (932, 1041, b"\x8a\xbf", "漢"),
        ] {
            assert_eq!(of(Some(windows), Some(language), bytes), text);
            assert_eq!(of(None, Some(language), bytes), text, "{language}");
            if windows != 1252 {
                assert_eq!(of(Some(windows), None, bytes), text, "{windows}");
            }
        }
        assert_eq!(of(None, None, b"\x9b"), "¢");
        assert_eq!(of(Some(1252), Some(1029), b"\x9b"), "ø", "the code page counts for more");
        for language in 0..=0xffff {
            of(None, Some(language), b"a");
        }
    }
}
