//! What of a file could not be read, in sentences.

use super::super::text::ranges;

/// At most 5 fonts are named; the others are told as one reason.
const MAX_FONTS: usize = 5;

/// A name of a font is told up to its 40th character.
const MAX_NAME_CHARS: usize = 40;

/// Why something is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing says which characters the codes of a font are.
    Unknown { font: String },
    /// The same of fonts that are not named.
    UnknownOthers,
    /// What draws a page, or a part of it.
    Damaged,
    /// There was no time for these pages.
    Late,
    /// The page has pictures and no text.
    Pictures,
}

struct Entry {
    reason: Reason,
    /// Ascending, from 1.
    pages: Vec<usize>,
    /// How many characters are left out, and of how many.
    missing: usize,
    of: usize,
}

/// What is left out of a file.
#[derive(Default)]
pub struct LeftOut {
    entries: Vec<Entry>,
}

impl LeftOut {
    /// Notes that something of a page is left out.
    pub fn add(&mut self, page: usize, reason: Reason) {
        self.entry(reason).add_page(page);
    }

    /// Notes that so many of the characters of a page are left out.
    pub fn add_characters(&mut self, page: usize, font: &str, missing: usize, of: usize) {
        let font = font.chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect();
        let entry = self.entry(Reason::Unknown { font });
        entry.add_page(page);
        entry.missing += missing;
        entry.of += of;
    }

    fn entry(&mut self, mut reason: Reason) -> &mut Entry {
        let is_font = |entry: &&Entry| matches!(entry.reason, Reason::Unknown { .. });
        let known = |all: &[Entry], reason: &Reason| all.iter().position(|e| e.reason == *reason);
        let mut at = known(&self.entries, &reason);
        if at.is_none()
            && matches!(reason, Reason::Unknown { .. })
            && self.entries.iter().filter(is_font).count() == MAX_FONTS
        {
            reason = Reason::UnknownOthers;
            at = known(&self.entries, &reason);
        }
        let at = at.unwrap_or_else(|| {
            self.entries.push(Entry { reason, pages: Vec::new(), missing: 0, of: 0 });
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }

    /// Returns a sentence for each reason.
    pub fn sentences(&self) -> Vec<String> {
        self.entries.iter().map(Entry::sentence).collect()
    }
}

impl Entry {
    fn add_page(&mut self, page: usize) {
        if self.pages.last() != Some(&page) {
            self.pages.push(page);
        }
    }

    fn sentence(&self) -> String {
        let (pages, is_one) = (pages(&self.pages), self.pages.len() == 1);
        match &self.reason {
            Reason::Unknown { font } => format!(
                "{pages}: {} of {} characters are left out: the font {font} does not say which they \
                 are",
                self.missing, self.of
            ),
            Reason::UnknownOthers => format!(
                "{pages}: {} of {} characters are left out: other fonts do not say which they are",
                self.missing, self.of
            ),
            Reason::Damaged => format!("{pages}: a part is damaged and left out"),
            Reason::Late if is_one => {
                format!("{pages} is left out: the file takes too long to read")
            }
            Reason::Late => format!("{pages} are left out: the file takes too long to read"),
            Reason::Pictures if is_one => {
                format!("{pages} has a picture and no text, as scans have")
            }
            Reason::Pictures => format!("{pages} have a picture and no text, as scans have"),
        }
    }
}

/// Names pages: `page 3`, `pages 1, 3 to 9`.
fn pages(all: &[usize]) -> String {
    let word = if all.len() == 1 { "page" } else { "pages" };
    format!("{word} {}", ranges(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_once_with_their_pages() {
        let mut left_out = LeftOut::default();
        left_out.add_characters(1, "Quokka", 3, 40);
        for page in [3, 4, 5] {
            left_out.add_characters(page, "Quokka", 1, 10);
            left_out.add(page, Reason::Pictures);
        }
        left_out.add(7, Reason::Damaged);
        left_out.add(7, Reason::Damaged);
        assert_eq!(
            left_out.sentences(),
            [
                "pages 1, 3 to 5: 6 of 70 characters are left out: the font Quokka does not say \
                 which they are",
                "pages 3 to 5 have a picture and no text, as scans have",
                "page 7: a part is damaged and left out",
            ]
        );
    }

    #[test]
    fn what_is_told_is_bounded() {
        let mut left_out = LeftOut::default();
        for page in 0..5000 {
            left_out.add_characters(2 * page + 1, &"W".repeat(page), 1, 1);
        }
        let sentences = left_out.sentences();
        assert_eq!(sentences.len(), MAX_FONTS + 1);
        assert!(sentences.iter().all(|sentence| sentence.len() < 250), "{sentences:?}");
        let last = &sentences[MAX_FONTS];
        assert!(last.starts_with("pages 11, 13, 15, 17, 19, 21, 23, 25 and others: "), "{last}");
        assert!(
            last.ends_with(
                ": 4995 of 4995 characters are left out: other fonts do not say which they are"
            ),
            "{last}"
        );
    }
}
