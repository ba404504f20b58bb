//! Whether people see what a name or an address is: no character that nothing is shown for, and no
//! word whose letters come from scripts that look alike.

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

/// The letters of other scripts that look like Latin ones, beside all of Cyrillic, Armenian and
/// Cherokee, whose letters mostly do.
const GREEK_ALIKE: &str = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγικνορυχϲϳ";

/// The scripts whose letters are taken for each other's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    Latin,
    Greek,
    Cyrillic,
    Armenian,
    Cherokee,
}

/// Returns the script of a letter, if it is one whose letters are taken for another's.
fn script(c: char) -> Option<Script> {
    match c {
        'a'..='z' | 'A'..='Z' => Some(Script::Latin),
        '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' if c.is_alphabetic() => Some(Script::Latin),
        '\u{370}'..='\u{3ff}' if GREEK_ALIKE.contains(c) => Some(Script::Greek),
        '\u{400}'..='\u{52f}' | '\u{1c80}'..='\u{1c8f}' | '\u{2de0}'..='\u{2dff}' => {
            Some(Script::Cyrillic)
        }
        '\u{531}'..='\u{587}' => Some(Script::Armenian),
        '\u{13a0}'..='\u{13fd}' | '\u{ab70}'..='\u{abbf}' => Some(Script::Cherokee),
        _ => None,
    }
}

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

/// Whether a word of a text has letters of two scripts that look alike. A word ends where a letter
/// does.
pub fn mixes_scripts(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| {
        let mut scripts = word.chars().filter_map(script);
        scripts.next().is_some_and(|first| scripts.any(|other| other != first))
    })
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
    fn a_word_of_scripts_that_look_alike_is_found() {
        for mixed in ["аcme", "Adа", "Ωρα-pаypal", "ΡayPal", "раyраl", "Օlga"] {
            assert!(mixes_scripts(mixed), "{mixed}");
        }
        // Each block of each script, beside another one.
        for mixed in [
            "\u{e9}\u{430}",
            "\u{17f}\u{430}",
            "\u{1e01}\u{430}",
            "\u{1ef3}\u{443}",
            "a\u{3bf}",
            "a\u{52f}",
            "a\u{1c80}",
            "a\u{2de0}",
            "a\u{13a0}",
            "a\u{13f5}",
            "a\u{ab70}",
            "\u{430}\u{585}",
        ] {
            assert!(mixes_scripts(mixed), "{mixed:?}");
        }
        for plain in ["acme", "Москва acme", "Ада", "Ολγα", "Δt µs", "naïve", "東京tokyo", "Ωmega"]
        {
            assert!(!mixes_scripts(plain), "{plain}");
        }
    }
}
