//! Selectors of an artifact's version: a range of versions, a label, or none
//! (reference: registries-and-templates, "Selecting a version"; exact, partial `1` and `1.2`, `^`,
//! `~`, `>=`, `*`).
//!
//! A range is one interval of version numbers, so that its highest match is one index lookup. A
//! text that is not one interval, or can match no version, is not a range: lists with commas,
//! pre-releases, build metadata, `x`.

use semver::{Op, VersionReq};

use super::Label;
use super::names::exact_numbers;

/// An interval of versions: from one, included, to another, excluded, or without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    from: [u64; 3],
    to: Option<[u64; 3]>,
}

impl Range {
    /// Every version: `*`.
    pub const ANY: Range = Range { from: [0; 3], to: None };

    /// Parses a range; `None` if the text is not one. Blanks around it and after its operator are
    /// ignored, as are leading zeros of a number (`01.2.3` is a version here).
    pub fn parse(text: &str) -> Option<Range> {
        let text = text.trim_matches(' ');
        if let Some(numbers) = exact_numbers(text) {
            return Some(Range { from: numbers, to: end_of(&numbers) });
        }
        if text == "*" {
            return Some(Range::ANY);
        }
        // semver would accept more: `1.x`, `1.2.3-rc.1`, `>1, <2`.
        let known = |c: char| c.is_ascii_digit() || matches!(c, '.' | '^' | '~' | '>' | '=' | ' ');
        if !text.chars().all(known) {
            return None;
        }
        let requirement = VersionReq::parse(&without_leading_zeros(text)).ok()?;
        let [comparator] = requirement.comparators.as_slice() else { return None };
        let numbers = [Some(comparator.major), comparator.minor, comparator.patch];
        let given: Vec<u64> = numbers.into_iter().flatten().collect();
        let is_bare = text.starts_with(|c: char| c.is_ascii_digit());
        // The range ends where one of the fixed numbers would change.
        let kept = match comparator.op {
            Op::Caret if is_bare => given.len(),
            Op::Caret => given.iter().position(|&n| n != 0).map_or(given.len(), |at| at + 1),
            Op::Tilde => given.len().min(2),
            Op::GreaterEq => 0,
            _ => return None,
        };
        let from = std::array::from_fn(|at| given.get(at).copied().unwrap_or(0));
        Some(Range { from, to: end_of(&given[..kept]) })
    }

    /// Returns the numbers of the version that alone is in it; `None` if there may be others.
    pub fn exact(&self) -> Option<[u64; 3]> {
        (self.from[2] < u64::MAX && self.to == end_of(&self.from)).then_some(self.from)
    }

    /// Returns whether a version of these numbers is in it.
    pub fn contains(&self, numbers: [u64; 3]) -> bool {
        self.from <= numbers && self.to.is_none_or(|to| numbers < to)
    }

    /// Returns the lowest version in it.
    pub fn from(&self) -> [u64; 3] {
        self.from
    }

    /// Returns the lowest version above it; `None` if it has no end.
    pub fn to(&self) -> Option<[u64; 3]> {
        self.to
    }
}

/// Returns the first version after all that begin with `kept`; `None` if there is none.
fn end_of(kept: &[u64]) -> Option<[u64; 3]> {
    let last = kept.iter().rposition(|&n| n != u64::MAX)?;
    let mut end = [0; 3];
    end[..last].copy_from_slice(&kept[..last]);
    end[last] = kept[last] + 1;
    Some(end)
}

fn without_leading_zeros(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_number = false;
    while let Some(c) = rest.next() {
        let leads = c == '0' && !in_number && rest.peek().is_some_and(char::is_ascii_digit);
        if !leads {
            kept.push(c);
            in_number = c.is_ascii_digit();
        }
    }
    kept
}

/// Which version of an artifact is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// No selector was given: the highest version.
    #[default]
    Newest,
    /// The highest version in a range; an exact version is a range of one.
    Range(Range),
    /// The version that a label points to.
    Label(Label),
    /// The text can select no version (404, reference: conventions, "Ids").
    Nothing,
}

impl Selector {
    /// Parses a text: as a range, else as a label, else as [`Selector::Nothing`].
    pub fn parse(text: &str) -> Selector {
        match (Range::parse(text), Label::parse(text)) {
            (Some(range), _) => Selector::Range(range),
            (None, Ok(label)) => Selector::Label(label),
            (None, Err(_)) => Selector::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Version;
    use proptest::prelude::*;

    const MAX: u64 = u64::MAX;

    #[test]
    fn ranges_are_intervals() {
        for (text, from, to) in [
            ("1.2.3", [1, 2, 3], Some([1, 2, 4])),
            ("01.002.0", [1, 2, 0], Some([1, 2, 1])),
            ("0.0.0", [0, 0, 0], Some([0, 0, 1])),
            ("1.2", [1, 2, 0], Some([1, 3, 0])),
            ("1", [1, 0, 0], Some([2, 0, 0])),
            ("000", [0, 0, 0], Some([1, 0, 0])),
            ("^1.2.3", [1, 2, 3], Some([2, 0, 0])),
            ("^1.2", [1, 2, 0], Some([2, 0, 0])),
            ("^0.2.3", [0, 2, 3], Some([0, 3, 0])),
            ("^0.0.3", [0, 0, 3], Some([0, 0, 4])),
            ("^0.0.0", [0, 0, 0], Some([0, 0, 1])),
            ("^0.0", [0, 0, 0], Some([0, 1, 0])),
            ("^0", [0, 0, 0], Some([1, 0, 0])),
            ("^00.010", [0, 10, 0], Some([0, 11, 0])),
            ("~1.2.3", [1, 2, 3], Some([1, 3, 0])),
            ("~1.2", [1, 2, 0], Some([1, 3, 0])),
            ("~1", [1, 0, 0], Some([2, 0, 0])),
            (">=1.2", [1, 2, 0], None),
            (" >= 1.2 ", [1, 2, 0], None),
            ("*", [0, 0, 0], None),
            (" * ", [0, 0, 0], None),
            ("18446744073709551615", [MAX, 0, 0], None),
            ("~1.18446744073709551615.0", [1, MAX, 0], Some([2, 0, 0])),
            ("1.2.18446744073709551615", [1, 2, MAX], Some([1, 3, 0])),
        ] {
            assert_eq!(Range::parse(text), Some(Range { from, to }), "{text}");
        }
    }

    #[test]
    fn a_range_is_a_single_interval_of_versions() {
        for text in [
            "",
            " ",
            "x",
            "1.x",
            "1.*",
            "^1.*",
            "^*",
            ">=*",
            "^",
            ">=",
            "1.",
            ".1",
            "1.2.3.4",
            ">1",
            "<2",
            "<=2",
            "=1.2.3",
            ">=1, <2",
            ">=1 <2",
            "1.2.3-rc.1",
            "1.2.3+b",
            "v1",
            "+1",
            "-1",
            "1 .2",
            "1. 2",
            "^^1",
            "\t1",
            "18446744073709551616",
            "latest",
            "١",
        ] {
            assert_eq!(Range::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_word_that_is_no_range_is_a_label_and_the_rest_selects_nothing() {
        let label = |text: &str| Selector::Label(Label::parse(text).unwrap());
        assert_eq!(Selector::parse("^1.2"), Selector::Range(Range::parse("^1.2").unwrap()));
        assert_eq!(Selector::parse("production"), label("production"));
        assert_eq!(Selector::parse("x"), label("x"));
        assert_eq!(Selector::parse("v1.2.3"), label("v1.2.3"));
        for text in ["", "1.2.3.4", "1.2.3-rc", "-", "a b", " a", "ä"] {
            assert_eq!(Selector::parse(text), Selector::Nothing, "{text}");
        }
    }

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![4 => 0..4u64, 1 => MAX - 1..=MAX]
    }

    proptest! {
        #[test]
        fn every_version_is_a_range_of_itself_alone(text in "0{0,2}[0-9]{1,6}\\.[0-9]{1,3}\\.[0-9]{1,20}") {
            let Ok(version) = Version::parse(text.as_str()) else { return Ok(()) };
            let range = Range::parse(&text).unwrap();
            prop_assert_eq!(range.from(), version.numbers());
            prop_assert_eq!(range.to(), end_of(&version.numbers()));
        }

        #[test]
        fn ranges_hold_what_semver_says(
            operator in prop::sample::select(vec!["", "^", "~", ">="]),
            numbers in prop::collection::vec(number(), 1..=3),
            [major, minor, patch] in prop::array::uniform3(number()),
        ) {
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            let numbers = numbers.join(".");
            let ours = Range::parse(&format!("{operator}{numbers}")).unwrap();
            // A bare version is `^` to semver; `=` is what it is to us.
            let operator = if operator.is_empty() { "=" } else { operator };
            let theirs = VersionReq::parse(&format!("{operator}{numbers}")).unwrap();
            let version = semver::Version::new(major, minor, patch);
            prop_assert_eq!(ours.contains([major, minor, patch]), theirs.matches(&version));
        }

        #[test]
        fn any_text_is_a_range_or_not(text in "[0-9.^~>=* x,-]{0,12}|.{0,12}") {
            if let Some(range) = Range::parse(&text) {
                prop_assert!(range.contains(range.from()));
                prop_assert!(range.to().is_none_or(|to| range.from() < to && !range.contains(to)));
            }
            Selector::parse(&text);
        }
    }
}
