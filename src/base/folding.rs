//! Folding: the form in which texts are compared by every search.
//!
//! It is what Unicode calls caseless matching of compatible characters (NFKC_Casefold): without regard
//! to case, to the form in which accents and widths are written, and to characters that show nothing,
//! such as soft hyphens and joiners. `ß` is `ss`, a final sigma a sigma, and a dotless `ı` no `i`.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

/// Whether a character shows nothing and is ignored in comparisons (Default_Ignorable_Code_Point).
pub fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Whether words of its script are written without blanks between them, or with endings that other
/// languages write apart: Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer.
pub fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e01}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '々' | '〇' | '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Returns the characters of a text, folded, one after another.
fn folded_chars(text: &str) -> impl Iterator<Item = char> {
    text.nfkd().filter(|c| !is_ignorable(*c)).flat_map(fold_case).nfkc()
}

/// The full case folding of a character that is not composed of others. What has the same capital
/// letters is the same, but for the dotless `ı`: only in Turkish is `I` its capital.
fn fold_case(c: char) -> impl Iterator<Item = char> {
    // The capital ß is a letter that has no capital.
    let c = if c == 'ẞ' { 'ß' } else { c };
    let is_kept = c == 'ı' || ('\u{2e80}'..'\u{a640}').contains(&c);
    let (kept, capital) = if is_kept { (Some(c), None) } else { (None, Some(c.to_uppercase())) };
    kept.into_iter().chain(capital.into_iter().flatten().flat_map(char::to_lowercase))
}

/// Whether a character folds to itself beside any other of these: most of many texts, for which the
/// tables of Unicode need not be asked.
fn is_folded(c: char) -> bool {
    matches!(c, '\u{20}'..='\u{40}' | '\u{5b}'..='\u{7e}' | '\n' | '\t' | 'à'..='ö' | 'ø'..='ÿ'
        | 'ά'..='ί' | 'α'..='ρ' | 'σ'..='ώ' | 'а'..='џ' | '\u{3041}'..='\u{3096}'
        | '\u{30a1}'..='\u{30fa}' | 'ー' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Returns the first characters of a text, folded, at most this many.
pub fn fold_first(text: &str, most: usize) -> Cow<'_, str> {
    if text.chars().all(is_folded) {
        let end = text.char_indices().nth(most).map_or(text.len(), |(end, _)| end);
        return text[..end].into();
    }
    folded_chars(text).take(most).collect::<String>().into()
}

/// Returns a text, folded. It takes time in proportion to its length.
pub fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        let has_capitals = text.bytes().any(|byte| byte.is_ascii_uppercase());
        return if has_capitals { text.to_ascii_lowercase().into() } else { text.into() };
    }
    let mut folded = String::with_capacity(text.len());
    // Nothing composes with a blank: most pieces of many texts are ASCII, which is fast.
    for piece in text.split_inclusive([' ', '\n']) {
        if piece.is_ascii() {
            folded.extend(piece.bytes().map(|byte| char::from(byte.to_ascii_lowercase())));
        } else if piece.chars().all(is_folded) {
            folded.push_str(piece);
        } else {
            folded.extend(folded_chars(piece));
        }
    }
    folded.into()
}

/// Returns a folded text without accents and points: of letters that have them in the scripts of
/// Europe, of Hebrew and of Arabic. Letters with a stroke and ligatures count as having one.
pub fn without_accents(folded: &str) -> Cow<'_, str> {
    if folded.is_ascii() {
        return folded.into();
    }
    let mut bare = String::with_capacity(folded.len());
    bare.extend(folded.nfd().filter(|c| !is_accent(*c)).flat_map(plain).nfc());
    if bare == folded { folded.into() } else { bare.into() }
}

fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{344}' | '\u{346}'..='\u{36f}' | '\u{483}'..='\u{487}'
        | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}'..='\u{5c2}' | '\u{5c4}'..='\u{5c5}' | '\u{5c7}'
        | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{652}' | '\u{656}'..='\u{65f}' | '\u{670}'
        | '\u{6d6}'..='\u{6dc}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// The letters for one that is not composed of a letter and an accent.
fn plain(c: char) -> impl Iterator<Item = char> {
    let (first, second) = match c {
        'æ' => ('a', Some('e')),
        'œ' => ('o', Some('e')),
        'þ' => ('t', Some('h')),
        'ø' => ('o', None),
        'ð' | 'đ' => ('d', None),
        'ħ' => ('h', None),
        'ı' => ('i', None),
        'ł' => ('l', None),
        'ŧ' => ('t', None),
        _ => (c, None),
    };
    [Some(first), second].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn assert_same(one: &str, other: &str) {
        assert_eq!(fold(one), fold(other));
    }

    #[test]
    fn words_are_the_same_in_any_case_form_and_width() {
        assert_same("οδυσσευς", "ΟΔΥΣΣΕΥΣ");
        assert_same("GRÖSSE", "Größe");
        assert_same("ẞ", "ss");
        assert_same("caf\u{e9}", "Cafe\u{301}");
        assert_same("ﬁn", "FIN");
        assert_same("ＡＢＣ１", "abc1");
        assert_same("ｶﾞｷﾞ", "ガギ");
        assert_same("\u{212b}ngstr\u{f6}m", "\u{e5}NGSTR\u{d6}M");
    }

    #[test]
    fn what_shows_nothing_is_ignored() {
        assert_same("depart\u{ad}ment", "department");
        assert_same("a\u{200d}b\u{200c}c\u{feff}d\u{2060}", "abcd");
        assert_eq!(fold("\u{ad}\u{200d}"), "");
    }

    #[test]
    fn a_dotless_i_is_another_letter_and_a_dotted_capital_an_i_with_a_dot() {
        assert_ne!(fold("ı"), fold("I"));
        assert_eq!(fold("İ"), "i\u{307}");
        assert_eq!(without_accents(&fold("İstanbul IŞIK ışık")), "istanbul isik isik");
    }

    #[test]
    fn accents_and_strokes_are_left_out_and_what_makes_another_letter_is_not() {
        let bare = |text| without_accents(&fold(text)).into_owned();
        assert_eq!(bare("Café crème, Łódź, Ærø, smørrebrød"), "cafe creme, lodz, aero, smorrebrod");
        assert_eq!(bare("Ἀθῆναι"), "αθηναι");
        assert_eq!(bare("Ёлка"), "елка");
        assert_eq!(bare("שָׁלוֹם"), "שלום");
        assert_eq!(bare("ガキ हिन्दी 한국어"), "ガキ हिन्दी 한국어");
    }

    #[test]
    fn every_character_folds_to_what_folds_no_further() {
        // Nothing is assigned between these two but what is for private use.
        for c in ('\0'..='\u{323af}').chain('\u{e0000}'..='\u{e0fff}') {
            let once = fold(c.encode_utf8(&mut [0; 4])).into_owned();
            assert_eq!(fold(&once), once, "{c:?}");
            assert!(!is_folded(c) || once.chars().eq([c]), "{c:?}");
            let bare = without_accents(&once).into_owned();
            assert_eq!(without_accents(&bare), bare, "{c:?}");
            assert_eq!(fold(&bare), bare, "{c:?}");
            let upper: String = c.to_uppercase().collect();
            let lower: String = c.to_lowercase().collect();
            if c != 'ı' {
                assert_eq!(fold(&upper), once, "{c:?}");
            }
            assert_eq!(fold(&lower), once, "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing_more(text in "[\\PCa-zéßΣςıİ\u{300}-\u{345}\u{ad}\u{200d} \n]*") {
            let once = fold(&text).into_owned();
            prop_assert_eq!(&fold(&once), &once);
            let bare = without_accents(&once).into_owned();
            prop_assert_eq!(&without_accents(&bare), &bare);
            prop_assert_eq!(&fold(&bare), &bare);
        }

        #[test]
        fn a_text_is_folded_as_its_pieces_are(text in "[\\PCa-zé\u{300}-\u{345} \n]*") {
            let whole: String = folded_chars(&text).collect();
            prop_assert_eq!(fold(&text), whole);
        }

        #[test]
        fn what_counts_as_folded_folds_to_itself(text in "[a-z0-9 \\n\\-_à-ÿά-ώа-џぁ-ゖァ-ヺー一-龥가-힣]*") {
            prop_assume!(text.chars().all(is_folded));
            prop_assert_eq!(folded_chars(&text).collect::<String>(), text);
        }

        #[test]
        fn forms_of_a_text_fold_to_one(text: String) {
            let forms = [text.nfc().collect(), text.nfd().collect::<String>()];
            for form in forms {
                prop_assert_eq!(fold(&form), fold(&text));
            }
        }
    }
}
