//! Whether people see what a name or an address is: no character that nothing is shown for, no
//! word whose letters come from several scripts, and no letter in a form that looks like another.

use std::iter::once;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;
use unicode_script::{Script, ScriptExtension, UnicodeScript as _};

use super::visible::Ranges;

/// Characters without a glyph of their own: format characters, marks of direction, fillers, tags and
/// selectors of variants. First and last of each range.
const UNSEEN: [(char, char); 31] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffc}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d159}', '\u{1d159}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
    ('\u{e000}', '\u{f8ff}'),
    ('\u{f0000}', '\u{ffffd}'),
    ('\u{100000}', '\u{10fffd}'),
];

/// Greek letters that look like no letter of Latin: words have them beside Latin ones as units and
/// signs of formulas (`Δt`, `kΩ`).
const OF_FORMULAS: &str = "ΓΔΘΛΞΠΣΦΨΩδθλμξπφψ";

/// Latin letters of the International Phonetic Alphabet that languages of Africa and Azerbaijani are
/// written with.
const OF_LANGUAGES: &str = "ɓɔɖɗəɛɠɣɨɩɲɵʃʉʊʋʒ";

/// Scripts that one word has together, and with Latin: those of Japanese, Chinese and Korean.
const WRITTEN_TOGETHER: [&[Script]; 3] = [
    &[Script::Han, Script::Hiragana, Script::Katakana],
    &[Script::Han, Script::Bopomofo],
    &[Script::Han, Script::Hangul],
];

/// Scripts whose words stand beside Latin ones without a blank, and have few letters that look like its.
const BESIDE_LATIN: [Script; 18] = [
    Script::Arabic,
    Script::Hebrew,
    Script::Thai,
    Script::Lao,
    Script::Khmer,
    Script::Myanmar,
    Script::Devanagari,
    Script::Bengali,
    Script::Gujarati,
    Script::Gurmukhi,
    Script::Tamil,
    Script::Telugu,
    Script::Kannada,
    Script::Malayalam,
    Script::Sinhala,
    Script::Tibetan,
    Script::Ethiopic,
    Script::Georgian,
];

/// Scripts with letters that Unicode derives from others for an old encoding and that are written so
/// nevertheless: the vowel of Thai and Lao, letters of Tibetan, narrow kana, the jamo of a keyboard.
const WITH_DERIVED: [Script; 6] = [
    Script::Thai,
    Script::Lao,
    Script::Tibetan,
    Script::Hangul,
    Script::Hiragana,
    Script::Katakana,
];

/// Derived letters that are on keyboards and look like no other: ordinals, the sign of micro, and the
/// ligature of Armenian.
const OF_KEYBOARDS: &str = "ªºµև";

/// Whether a letter of Latin is no letter of a language but a sign: of phonetics, of transcriptions, a
/// small capital, a click, or one that is no longer written. Many look like others (`ɑ`, `ɡ`, `ǀ`).
fn is_latin_sign(c: char) -> bool {
    let is_sign = matches!(c, '\u{184}' | '\u{185}' | '\u{1a6}'..='\u{1a8}' | '\u{1aa}'
        | '\u{1ba}'..='\u{1c3}' | '\u{1f6}' | '\u{1f7}' | '\u{21c}' | '\u{21d}'
        | '\u{250}'..='\u{2af}' | '\u{1d00}'..='\u{1dbf}' | '\u{2c60}'..='\u{2c7f}'
        | '\u{a722}'..='\u{a7ff}' | '\u{ab30}'..='\u{ab6f}' | '\u{10780}'..='\u{107bf}'
        | '\u{1df00}'..='\u{1dfff}');
    is_sign && !OF_LANGUAGES.contains(c) && c.script() == Script::Latin
}

/// Whether a character is a letter or digit of a special form, which is another one by its meaning
/// (NFKC): of full width or of mathematics, a Roman numeral, a ligature, a radical of Han. Raised and
/// lowered ones are seen as such, and so are signs of several letters (`²`, `™`).
fn is_of_special_form(c: char) -> bool {
    if c.is_ascii() || !has_letter_form(c) || OF_KEYBOARDS.contains(c) {
        return false;
    }
    // Kelvin and Ångström are letters of Latin by their very form.
    let is_derived = matches!(c, '\u{212a}' | '\u{212b}') || !once(c).nfkd().eq(once(c).nfd());
    is_derived && !WITH_DERIVED.contains(&c.script())
}

/// Whether a character is a letter, a decimal digit or a number of letters by its category, or a
/// radical of Han, but neither raised nor lowered.
fn has_letter_form(c: char) -> bool {
    static FORMS: LazyLock<Ranges> = LazyLock::new(|| Ranges::of(LETTER_FORMS));
    FORMS.contains(c)
}

/// The class of [`has_letter_form`].
const LETTER_FORMS: &str = r"[[\p{L}\p{Nd}\p{Nl}\x{2E80}-\x{2FD5}]--\p{Lm}]";

/// Whether a character is of a script that needs joiners between its letters: those from Arabic to
/// Sinhala, and Khmer.
fn is_joining(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{dff}' | '\u{1780}'..='\u{17ff}')
}

/// Whether a character is a picture, of which emoji are composed.
fn is_picture(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Whether a joiner, or the selector of the picture of an emoji, changes what is seen between these
/// two characters.
fn is_needed(before: char, joiner: char, next: Option<char>) -> bool {
    match joiner {
        '\u{200c}' | '\u{200d}' if is_joining(before) => next.is_some_and(is_joining),
        '\u{200d}' => (before == '\u{fe0f}' || is_picture(before)) && next.is_some_and(is_picture),
        '\u{fe0f}' if matches!(before, '#' | '*' | '0'..='9') => next == Some('\u{20e3}'),
        '\u{fe0f}' => is_picture(before),
        _ => false,
    }
}

/// Whether a text has a character for which nothing is shown where it stands.
pub fn has_unseen(text: &str) -> bool {
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        let is_needed = before.is_some_and(|before| is_needed(before, c, next));
        if !is_needed && UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&c)) {
            return true;
        }
        before = Some(c);
    }
    false
}

/// Whether a text has a letter or digit in a special form, such as `Ａ` or `Ⅻ`. Those of full width are
/// ordinary among Han and kana.
pub fn has_special_form(text: &str) -> bool {
    let is_east_asian =
        |c: char| matches!(c.script(), Script::Han | Script::Hiragana | Script::Katakana);
    let has_full_width = !text.is_ascii() && text.chars().any(is_east_asian);
    let is_ordinary = |c: char| has_full_width && matches!(c, '\u{ff01}'..='\u{ff5e}');
    !text.is_ascii() && text.chars().any(|c| is_of_special_form(c) && !is_ordinary(c))
}

/// Whether a word of a text has letters that are not written together, as [`is_mixed`] says. A word
/// ends where there is neither a letter nor a digit nor a mark on one.
pub fn mixes_scripts(text: &str) -> bool {
    !text.is_ascii() && words(text).any(is_mixed)
}

/// As [`mixes_scripts`], but for words of Latin and of another script that is written beside it without a
/// blank.
pub fn mixes_scripts_in_name(text: &str) -> bool {
    !text.is_ascii() && words(text).any(|word| is_mixed(word) && !is_beside_latin(word))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && !is_combining_mark(c))
}

/// Whether a text is letters of Latin beside at least two of one of [`BESIDE_LATIN`], not among them.
fn is_beside_latin(word: &str) -> bool {
    let of_all = |script: &Script| matches!(script, Script::Inherited | Script::Common);
    let scripts = word.chars().map(|c| c.script()).filter(|script| !of_all(script));
    let scripts: Vec<_> = scripts.collect();
    let Some(other) = scripts.iter().find(|script| **script != Script::Latin) else { return false };
    let others = word.chars().filter(|c| c.script() == *other && c.is_alphabetic()).count();
    let is_known = |script: &Script| *script == Script::Latin || script == other;
    let changes = scripts.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let has_signs = word.chars().any(is_latin_sign);
    BESIDE_LATIN.contains(other)
        && !has_signs
        && scripts.iter().all(is_known)
        && changes == 1
        && others > 1
}

/// Whether the letters and digits of a text are of several scripts: not "highly restrictive", as
/// Unicode calls it (UTS 39, 5.2). Those of Japanese, Chinese and Korean are one, alone and with
/// Latin; what all scripts use counts for none. Beyond that, signs of Latin are not mixed with its
/// letters, and Greek letters of formulas are with Latin.
pub fn is_mixed(text: &str) -> bool {
    // Marks that all scripts use are named for some of them by Unicode.
    let letters: Vec<char> = text.chars().filter(|c| c.script() != Script::Inherited).collect();
    let is_latin = |c: &char| c.script() == Script::Latin;
    let has_signs = letters.iter().any(|c| is_latin_sign(*c));
    if has_signs && letters.iter().any(|c| is_latin(c) && !is_latin_sign(*c)) {
        return true;
    }
    let common = letters
        .iter()
        .fold(ScriptExtension::default(), |common, c| common.intersection(c.script_extension()));
    if !common.is_empty() {
        return false;
    }
    let has_latin = letters.iter().any(is_latin);
    let is_beside = |c: &char| is_latin(c) || has_latin && OF_FORMULAS.contains(*c);
    let others: Vec<_> =
        letters.iter().filter(|c| !is_beside(c)).map(|c| c.script_extension()).collect();
    let is_covered = |group: &[Script]| {
        others.iter().all(|of| group.iter().any(|script| of.contains_script(*script)))
    };
    !WRITTEN_TOGETHER.into_iter().any(is_covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::visible;

    #[test]
    fn what_nothing_is_shown_for_is_found_except_where_a_script_needs_it() {
        for unseen in [
            "\u{3164}",
            "Ada\u{202e}",
            "b\u{200b}en",
            "b\u{200d}en",
            "\u{feff}Ada",
            "A\u{ad}da",
            "x\u{e0069}",
            "a\u{fe0f}",
            "\u{2066}Ada",
            "A\u{2028}B",
            "\u{200d}",
            "\u{e000}",
            "ben1\u{200d}",
            "ben1\u{fe0f}",
            "علي\u{fe0f}",
            "علي\u{200d}",
            "👩\u{200d}",
            "\u{fffc}",
            // Signs around numbers, and characters that each font draws as it likes.
            "1\u{600}2",
            "1\u{605}2",
            "1\u{6dd}2",
            "a\u{70f}b",
            "1\u{890}2",
            "1\u{8e2}2",
            "a\u{110bd}b",
            "a\u{110cd}b",
            "a\u{f8ff}b",
            "a\u{f0000}b",
            "a\u{10fffd}b",
        ] {
            assert!(has_unseen(unseen), "{unseen:?}");
        }
        for seen in [
            "Ada",
            "Zoë Müller",
            "王小明",
            "👩\u{200d}💻 team",
            "❤\u{fe0f}",
            "❤\u{fe0f}\u{200d}🔥",
            "می\u{200c}خواهم",
            "1\u{fe0f}\u{20e3}",
        ] {
            assert!(!has_unseen(seen), "{seen:?}");
        }
    }

    #[test]
    fn no_name_or_address_has_a_character_that_texts_show_with_a_mark() {
        // Controls are refused as such.
        let marked =
            (char::MIN..=char::MAX).filter(|c| visible::is_invisible(*c) && !c.is_control());
        for c in marked {
            assert!(has_unseen(&format!("a{c}b")), "{c:?}");
        }
    }

    #[test]
    fn a_word_of_several_scripts_is_found() {
        for mixed in ["аcme", "Adа", "Ωρα-pаypal", "ΡayPal", "раyраl", "Օlga", "ꓮda", "Adⲧ", "Adό"]
        {
            assert!(mixes_scripts(mixed), "{mixed}");
        }
        // A letter of each of these scripts beside one of another.
        for mixed in [
            "\u{e9}\u{430}",
            "\u{17f}\u{430}",
            "\u{1ef3}\u{443}",
            "a\u{3bf}",
            "a\u{52f}",
            "a\u{1c80}",
            "a\u{13a0}",
            "a\u{ab70}",
            "\u{430}\u{585}",
            "\u{430}Ω",
            // Deseret, Osage, Coptic, Lisu, Warang Citi, Canadian syllabics, Georgian, Myanmar, Thai.
            "a\u{10404}",
            "a\u{104c2}",
            "a\u{2c9f}",
            "a\u{a4f3}",
            "a\u{118c8}",
            "a\u{1587}",
            "a\u{10ff}",
            "G\u{101d}gle",
            "a\u{e50}",
            "a\u{665}",
            // A mark ends no word.
            "Ad\u{301}\u{430}",
            // Signs that look like letters of Latin.
            "Ad\u{251}",
            "\u{1c0}da",
            "\u{261}o",
            "A\u{1d05}a",
            "Ad\u{ab30}",
            "\u{a7f7}da",
        ] {
            assert!(mixes_scripts(mixed), "{mixed:?}");
        }
        for plain in [
            "acme",
            "Москва acme",
            "Ада",
            "Ολγα",
            "Δt µs",
            "kΩ",
            "naïve",
            "東京tokyo",
            "Ωmega",
            "カタカナひらがな漢字ー々",
            "한국어漢字API",
            "ㄅㄆ漢字",
            "Kɔfi",
            "Ɛsi",
            "Əli",
            "Žiga",
            "Nguyễn",
            "Nº 1ª",
            "Hawaiʻi",
            "Oʼzbek",
            "Zoe\u{308}",
            "ɡɑ",
            "علي ٣",
            "علي٣",
            "हिन्दी१",
            "น้ำใจ",
            "עברית",
            "և",
            "əˈloʊ",
            "3D-модель",
            "CO₂",
            "x²",
            "1️⃣",
            "ქართული",
            "ᎣᏏᏲ",
            "በ2",
        ] {
            assert!(!mixes_scripts(plain), "{plain}");
        }
    }

    #[test]
    fn a_letter_or_digit_in_a_special_form_is_found() {
        for special in [
            "Ａda",
            "\u{1d400}da",
            "Gi\u{217c}",
            "Ⅻ",
            "ﬁ",
            "ſ",
            "１",
            "\u{1d7ce}",
            "\u{212a}ate",
            "ℓ",
            "ǆ",
            "⼈",
            "\u{fe8d}",
            "\u{1d6a8}",
            "ĳ",
            "\u{212b}",
            "\u{3f2}",
        ] {
            assert!(has_special_form(special), "{special}");
        }
        for plain in [
            "Ada",
            "Zoë",
            "Zoe\u{308}",
            "²",
            "CO₂",
            "™",
            "½",
            "№ 5",
            "1ª",
            "Nº",
            "µs",
            "น้ำ",
            "ຳ",
            "և",
            "ㅋㅋ",
            "ｱｲ",
            "ゟ",
            "क़",
            "ά",
            "①",
            "Ⓐ",
            "…",
            "한국어",
            "漢字",
            "10 kΩ",
            "♥",
        ] {
            assert!(!has_special_form(plain), "{plain}");
        }
    }
}
