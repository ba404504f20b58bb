//! Recognizing UTF-16 without a byte order mark, by what its characters would be.
//!
//! Read in another encoding or in the wrong order of bytes, a text would be characters that hardly occur,
//! of many scripts: each of its bytes decides on its own which.

use encoding_rs::{BIG5, EUC_KR, Encoding, GBK, SHIFT_JIS, UTF_16BE, UTF_16LE};

/// So many units of a text are looked at: those of a page or two.
const LOOKED_AT: usize = 2048;

/// Returns which UTF-16 a file is in, if it looks like a text in one: of both orders of bytes the one in
/// which it is more like one. `is_strict` for bytes that could be a text in another encoding as well: then
/// no character may be a rare one.
pub fn recognized(bytes: &[u8], is_strict: bool) -> Option<&'static Encoding> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return None;
    }
    let zeros = of_zeros(pairs);
    let pairs = &pairs[..pairs.len().min(LOOKED_AT)];
    let of = |unit: fn([u8; 2]) -> u16| Looks::of(pairs.iter().map(|pair| unit(*pair)), is_strict);
    match (of(u16::from_le_bytes), of(u16::from_be_bytes)) {
        (Some(_), Some(_)) if zeros.is_some() => zeros,
        (Some(little), Some(big)) if big.rare < little.rare => Some(UTF_16BE),
        (Some(_), _) => Some(UTF_16LE),
        (None, Some(_)) => Some(UTF_16BE),
        (None, None) => zeros,
    }
}

/// In which order of bytes Latin letters would be, if that is evident: of each pair of bytes one is zero in
/// half of them at least, the same one but for a few.
fn of_zeros(pairs: &[[u8; 2]]) -> Option<&'static Encoding> {
    let zeros = |at: usize| pairs.iter().filter(|pair| pair[at] == 0).count();
    let (first, second) = (zeros(0), zeros(1));
    match (first, second) {
        _ if first + second < pairs.len().div_ceil(2) => None,
        _ if first * 16 < second => Some(UTF_16LE),
        _ if second * 16 < first => Some(UTF_16BE),
        _ => None,
    }
}

/// Whether what was read in another encoding has letters of one script only, none that is rare, and in words:
/// without other signs in them, and with capital letters only at their beginning or all over.
pub fn looks_like_text(text: &str) -> bool {
    let is_between = |c: char| c.is_whitespace() || ".,;:!?\"'()-/–—„“”«»".contains(c);
    let is_regular = |word: &str| {
        let letters = word.chars().filter(|c| c.is_alphabetic()).count();
        let capitals = word.chars().skip(1).filter(|c| c.is_uppercase()).count();
        let is_capital = capitals + 1 == letters && word.starts_with(char::is_uppercase);
        letters == 0 || letters == word.chars().count() && (capitals == 0 || is_capital)
    };
    let text = &text[..text.floor_char_boundary(LOOKED_AT)];
    Looks::of(text.encode_utf16(), true).is_some() && text.split(is_between).all(is_regular)
}

/// How a text looks.
#[derive(Default)]
struct Looks {
    characters: usize,
    rare: usize,
    /// Letters by scripts.
    letters: [usize; SCRIPTS],
    /// Which countries' standards do not have all of its ideographs among the common ones.
    foreign: [bool; 3],
}

impl Looks {
    /// How these units look, if they may be a text.
    fn of(units: impl Iterator<Item = u16>, is_strict: bool) -> Option<Self> {
        let (mut looks, mut units) = (Looks::default(), char::decode_utf16(units).peekable());
        while let Some(unit) = units.next() {
            if let Ok(c @ '\u{4e00}'..='\u{9fff}') = unit {
                let standards = standards(c);
                for (foreign, is_own) in looks.foreign.iter_mut().zip(standards) {
                    *foreign |= !is_own;
                }
                looks.rare += usize::from(!standards.contains(&true));
            }
            match unit.map(Kind::of) {
                Ok(Kind::None) => return None,
                Ok(Kind::Letter(script)) => looks.letters[script] += 1,
                Ok(Kind::Rare) => looks.rare += 1,
                Ok(Kind::Sign) => {}
                // Half of a character where the rest is not looked at.
                Err(_) if units.peek().is_none() && looks.characters + 1 >= LOOKED_AT / 2 => break,
                Err(_) => return None,
            }
            looks.characters += 1;
        }
        let letters: usize = looks.letters.iter().sum();
        let mut most = looks.letters;
        most.sort_unstable_by(|a, b| b.cmp(a));
        // Beside its own script a text may have another one, as that of names.
        let others = letters - most[0] - if is_strict { 0 } else { most[1] };
        let rare_at_most = if is_strict { 0 } else { looks.characters / 8 };
        let is_text = looks.rare <= rare_at_most && others <= letters / 16;
        let is_certain = match looks.foreign {
            _ if !is_strict => true,
            // Two syllables of Korean are two characters of Chinese or Japanese as well.
            _ if looks.letters[HANGUL] > 0 => letters > 2,
            [true, true, is_foreign] => letters > 3 && !is_foreign,
            _ => true,
        };
        (is_text && is_certain && letters > 1 && letters * 4 >= looks.characters).then_some(looks)
    }
}

/// What a character is, for a text.
enum Kind {
    Letter(usize),
    /// A digit, a punctuation mark, a symbol or a blank.
    Sign,
    /// What hardly occurs, or is not known here.
    Rare,
    /// What no text has.
    None,
}

/// How many scripts are told apart.
const SCRIPTS: usize = 9;
const LATIN: usize = 0;
const IDEOGRAPHS: usize = 7;
const HANGUL: usize = 8;

/// Where letters are, and of which script.
const LETTERS: [(u32, u32, usize); 19] = [
    (0x41, 0x5a, LATIN),
    (0x61, 0x7a, LATIN),
    (0xaa, 0xaa, LATIN),
    (0xb5, 0xb5, LATIN),
    (0xba, 0xba, LATIN),
    (0xc0, 0x24f, LATIN),
    (0x300, 0x36f, LATIN),
    (0x370, 0x3ff, 1),
    (0x400, 0x52f, 2),
    (0x590, 0x5ff, 3),
    (0x600, 0x6ff, 4),
    (0x900, 0xdff, 5),
    (0xe00, 0xeff, 6),
    (0x1e00, 0x1eff, LATIN),
    (0x1f00, 0x1fff, 1),
    (0x3041, 0x30ff, IDEOGRAPHS),
    (0x3105, 0x312f, IDEOGRAPHS),
    (0x4e00, 0x9fff, IDEOGRAPHS),
    (0xac00, 0xd7a3, HANGUL),
];

/// Where digits, punctuation marks and symbols are that texts in UTF-16 have.
const SIGNS: [(u32, u32); 13] = [
    (0x9, 0xa),
    (0xd, 0xd),
    (0x20, 0x7e),
    (0xa0, 0xbf),
    (0x2010, 0x2027),
    (0x2030, 0x203e),
    (0x20a0, 0x20bf),
    (0x2100, 0x2199),
    (0x2500, 0x25ff),
    (0x3000, 0x3017),
    (0xff01, 0xff9f),
    (0xfeff, 0xfeff),
    (0x1f300, 0x1faff),
];

impl Kind {
    fn of(c: char) -> Self {
        let code = u32::from(c);
        // The end of a line in the other order of bytes: the one is no character, the other hardly occurs.
        if matches!(c, '\u{a00}' | '\u{d00}') {
            return Kind::Rare;
        }
        if let Some((_, _, script)) =
            LETTERS.iter().find(|(first, last, _)| (*first..=*last).contains(&code))
        {
            let is_common = match *script {
                HANGUL => is_in(c, EUC_KR, |bytes| bytes[0] > 0xa0 && bytes[1] > 0xa0),
                _ => true,
            };
            return if is_common { Kind::Letter(*script) } else { Kind::Rare };
        }
        let is_sign = SIGNS.iter().any(|(first, last)| (*first..=*last).contains(&code));
        match c {
            _ if is_sign => Kind::Sign,
            '\u{c}' => Kind::Rare,
            c if c.is_control() || code & 0xfffe == 0xfffe => Kind::None,
            _ => Kind::Rare,
        }
    }
}

/// Whether an ideograph is one of the few thousands that the standards of China, Japan and Taiwan have first.
fn standards(c: char) -> [bool; 3] {
    [
        is_in(c, GBK, |bytes| matches!(bytes[0], 0xb0..=0xd7) && bytes[1] > 0xa0),
        is_in(c, SHIFT_JIS, |bytes| matches!(bytes[0], 0x88..=0x97)),
        is_in(c, BIG5, |bytes| matches!(bytes[0], 0xa4..=0xc6)),
    ]
}

/// Whether a character has two bytes in an encoding, and these.
fn is_in(c: char, encoding: &'static Encoding, is_own: fn([u8; 2]) -> bool) -> bool {
    let mut utf8 = [0; 4];
    let (bytes, _, is_lossy) = encoding.encode(c.encode_utf8(&mut utf8));
    !is_lossy && <[u8; 2]>::try_from(&*bytes).is_ok_and(is_own)
}

#[cfg(test)]
mod tests {
    use encoding_rs::{WINDOWS_1250, WINDOWS_1251, WINDOWS_1252, WINDOWS_1253};

    use super::*;

    fn in_utf16(text: &str, is_little: bool) -> Vec<u8> {
        let bytes = |unit: u16| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() };
        text.encode_utf16().flat_map(bytes).collect()
    }

    const TEXTS: [&str; 14] = [
        "发票",
        "发票号码：2026年，共三张。\r\n收款人：北京市海淀区中关村大街一号",
        "發票號碼，香港特別行政區政府總部，添馬添美道二號",
        "満潮は正午です。船は港を出ます。天気は晴れ、風は弱いでしょう。",
        "カタカナだけの文",
        "만조는 정오입니다. 배들이 항구를 떠납니다. 날씨는 맑습니다.",
        "Прилив достигает высшей точки в полдень, и лодки выходят в море.",
        "Да",
        "Η παλίρροια φτάνει στο ανώτατο σημείο το μεσημέρι",
        "הגאות מגיעה לשיאה בצהריים",
        "يصل المد إلى ذروته عند الظهر",
        "น้ำขึ้นสูงสุดตอนเที่ยง เรือออกจากท่า",
        "ज्वार दोपहर में अपने चरम पर पहुँचता है",
        "Cập nhật: thủy triều đạt đỉnh vào buổi trưa – “12:00” 🙂",
    ];

    #[test]
    fn texts_of_many_scripts_are_recognized_in_both_orders() {
        for text in TEXTS {
            for (is_little, encoding) in [(true, UTF_16LE), (false, UTF_16BE)] {
                let bytes = in_utf16(text, is_little);
                assert_eq!(recognized(&bytes, false), Some(encoding), "{text}");
                let mut long = bytes.repeat(200);
                assert_eq!(recognized(&long, false), Some(encoding), "{text}");
                long.pop();
                assert_eq!(recognized(&long, false), None, "{text}");
            }
        }
        // One that ends between the halves of a character where the rest is not looked at.
        let long = format!("a{}", "🙂a".repeat(LOOKED_AT));
        assert_eq!(recognized(&in_utf16(&long, true), false), Some(UTF_16LE));
    }

    #[test]
    fn texts_in_other_encodings_are_not() {
        for (text, encodings) in [
            (TEXTS[1], &[GBK][..]),
            (TEXTS[2], &[BIG5]),
            (TEXTS[3], &[SHIFT_JIS, encoding_rs::EUC_JP]),
            ("漢字テスト", &[SHIFT_JIS, encoding_rs::EUC_JP]),
            (TEXTS[5], &[EUC_KR]),
            (TEXTS[6], &[WINDOWS_1251, encoding_rs::KOI8_R, encoding_rs::IBM866]),
            (TEXTS[8], &[WINDOWS_1253]),
            ("Größenwahnallee 7, Köln; naïve façade", &[WINDOWS_1252]),
            ("Žluťoučký kůň úpěl ďábelské ódy", &[WINDOWS_1250]),
            ("Bush hid the facts", &[WINDOWS_1252]),
            ("plain words of seven bits, as they are in each file", &[WINDOWS_1252]),
        ] {
            for encoding in encodings {
                let (bytes, _, _) = encoding.encode(text);
                for shift in 0..2 {
                    let bytes = &bytes[shift..];
                    for end in 0..2 {
                        let bytes = &bytes[..bytes.len() - end];
                        for is_strict in [true, false] {
                            let found = recognized(bytes, is_strict);
                            assert_eq!(found, None, "{text} in {}", encoding.name());
                        }
                    }
                }
            }
        }
    }
}
