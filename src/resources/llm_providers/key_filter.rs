//! Removes the key of a provider from a text that comes in parts: a server may repeat what was sent.

/// What stands for the key.
const HIDDEN: &str = "…";

/// Removes this key from a text that is whole.
pub fn without(key: Option<&str>, text: &str) -> String {
    match key {
        Some(key) if !key.is_empty() => text.replace(key, HIDDEN),
        _ => text.into(),
    }
}

/// A text without a key, however its parts are cut.
pub struct KeyFilter {
    key: Option<String>,
    /// What may be the beginning of the key.
    held: String,
}

impl KeyFilter {
    /// A filter of this key, if there is one.
    pub fn new(key: Option<String>) -> Self {
        KeyFilter { key: key.filter(|key| !key.is_empty()), held: String::new() }
    }

    /// The key.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Removes the key from a text that is whole.
    pub fn whole(&self, text: &str) -> String {
        without(self.key(), text)
    }

    /// Takes the next part; returns what may be shown now.
    pub fn push(&mut self, part: &str) -> String {
        let Some(key) = &self.key else { return part.into() };
        self.held.push_str(part);
        let shown = self.held.replace(key.as_str(), HIDDEN);
        let kept = (1..key.len().min(shown.len() + 1))
            .rev()
            .find(|len| key.is_char_boundary(*len) && shown.ends_with(&key[..*len]));
        let (now, later) = shown.split_at(shown.len() - kept.unwrap_or(0));
        let now = now.to_string();
        self.held = later.to_string();
        now
    }

    /// Returns what was held back at the end of the text.
    pub fn end(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown_wherever_the_parts_end() {
        for (key, text, shown) in [
            ("sk-abc", "the key sk-abc, sk-ab and sk-sk-abc", "the key …, sk-ab and sk-…"),
            ("aab", "aaab aa", "a… aa"),
            ("schlüssel", "ein schlüssel, ein schlü", "ein …, ein schlü"),
            ("k", "k", "…"),
        ] {
            for size in 1..=text.len() {
                let mut filter = KeyFilter::new(Some(key.into()));
                let (mut all, mut rest) = (String::new(), text);
                while !rest.is_empty() {
                    let end = (size.min(rest.len())..).find(|at| rest.is_char_boundary(*at));
                    let (part, after) = rest.split_at(end.unwrap());
                    all += &filter.push(part);
                    assert!(!all.contains(key), "{all}");
                    rest = after;
                }
                all += &filter.end();
                assert_eq!(all, shown, "{size}");
            }
            assert_eq!(KeyFilter::new(Some(key.into())).whole(text), shown);
        }
    }

    #[test]
    fn without_a_key_nothing_is_held_back() {
        for key in [None, Some(String::new())] {
            let mut filter = KeyFilter::new(key);
            assert_eq!((filter.push("sk-"), filter.end()), ("sk-".into(), String::new()));
        }
    }
}
