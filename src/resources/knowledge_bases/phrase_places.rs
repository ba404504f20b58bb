//! Where a phrase is in a text.
//!
//! Words of a phrase may repeat, so that at a word of the text several ways to read it have come to
//! different places of the phrase. They are a bit for each of its words: a step takes the same time however
//! many they are. Only where the phrase ends, its beginning is looked for among the words before.

use std::collections::{HashMap, VecDeque};

use super::words::{Word, folded, joined, words};

/// The words of a phrase.
struct Phrase<'a> {
    count: usize,
    /// For each different word, at which places of the phrase it is: a bit each.
    places: HashMap<&'a str, Vec<u64>>,
}

impl<'a> Phrase<'a> {
    fn of(phrase: &'a [String]) -> Self {
        let mut places: HashMap<&str, Vec<u64>> = HashMap::new();
        for (at, word) in phrase.iter().enumerate() {
            let own = places.entry(word).or_insert_with(|| vec![0; phrase.len().div_ceil(64)]);
            own[at / 64] |= 1 << (at % 64);
        }
        Phrase { count: phrase.len(), places }
    }
}

/// Returns where a phrase begins in a text. `is_begin` says whether this is the beginning of a text, so
/// that the first word is complete. It takes time in proportion to the length of the text, and for a
/// phrase of more than 64 words to that of the phrase divided by 64.
pub fn phrase_in(text: &str, is_begin: bool, phrase: &[String]) -> Option<usize> {
    let phrase = Phrase::of(phrase);
    let mut place = Place::<Bits>::default();
    // Each word of the phrase is one of the text or, over a hyphenated line, two.
    let most = 2 * phrase.count;
    let mut seen: VecDeque<Word> = VecDeque::new();
    for word in words(text).skip(usize::from(!is_begin)) {
        let found = place.advance((text, &phrase), seen.back(), &word);
        if seen.len() == most {
            seen.pop_front();
        }
        seen.push_back(word);
        if found.is_some() {
            return beginning(text, &phrase, &seen);
        }
    }
    None
}

/// Returns where a phrase begins that ends with the last of these words.
fn beginning(text: &str, phrase: &Phrase, seen: &VecDeque<Word>) -> Option<usize> {
    let mut place = Place::<Vec<Begun>>::default();
    let before = [None].into_iter().chain(seen.iter().map(Some));
    before.zip(seen).find_map(|(last, word)| place.advance((text, phrase), last, word))
}

// ── Ways to read a text ──────────────────────────────────────────────────────

/// Ways to read the words up to some place as the first ones of a phrase.
trait Ways: Clone + Default {
    /// What is known of one that has all words.
    type Whole;

    /// Returns those that a word continues, and the one that begins with it.
    fn continued(&self, phrase: &Phrase, word: &str, at: usize) -> Self;

    fn add(&mut self, others: Self);

    /// Returns one that has all words of the phrase.
    fn whole(&self, phrase: &Phrase) -> Option<Self::Whole>;
}

/// The ways at the end of a word of a text, and at the end of the one before.
#[derive(Default)]
struct Place<W> {
    ways: W,
    before: W,
}

impl<W: Ways> Place<W> {
    /// Goes on to the end of the next word, before which is `last`. Returns a way that is complete there.
    fn advance(
        &mut self,
        (text, phrase): (&str, &Phrase),
        last: Option<&Word>,
        word: &Word,
    ) -> Option<W::Whole> {
        let mut next = self.ways.continued(phrase, &folded(&word.written), word.at);
        let mut whole = next.whole(phrase);
        if !word.pieces.is_empty() {
            let mut within = self.ways.clone();
            for piece in &word.pieces {
                within = within.continued(phrase, &folded(piece.written), piece.at);
                whole = whole.or(within.whole(phrase));
            }
            next.add(within);
        }
        if let Some(last) = last
            && let Some(both) = joined(text, last, word)
        {
            next.add(self.before.continued(phrase, &both, last.at));
        }
        whole = whole.or(next.whole(phrase));
        self.before = std::mem::replace(&mut self.ways, next);
        whole
    }
}

/// How many words each way has: a bit for each number, the first one for one word. Without ways, empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bits(Vec<u64>);

impl Ways for Bits {
    type Whole = ();

    fn continued(&self, phrase: &Phrase, word: &str, _: usize) -> Self {
        let Some(places) = phrase.places.get(word) else { return Bits::default() };
        let mut carried = 1;
        let own = self.0.iter().copied().chain(std::iter::repeat(0));
        let next = places.iter().zip(own).map(|(places, own)| {
            let moved = own << 1 | carried;
            carried = own >> 63;
            moved & places
        });
        let next: Vec<u64> = next.collect();
        if next.iter().all(|bits| *bits == 0) { Bits::default() } else { Bits(next) }
    }

    fn add(&mut self, others: Self) {
        if self.0.is_empty() {
            *self = others;
        } else {
            self.0.iter_mut().zip(others.0).for_each(|(own, other)| *own |= other);
        }
    }

    fn whole(&self, phrase: &Phrase) -> Option<()> {
        let last = phrase.count.checked_sub(1)?;
        let bits = self.0.get(last / 64)?;
        (bits >> (last % 64) & 1 == 1).then_some(())
    }
}

/// A phrase that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Begun {
    /// So many of its words are there.
    words: usize,
    start: usize,
}

/// Of several ways with as many words the one that begins first.
impl Ways for Vec<Begun> {
    type Whole = usize;

    fn continued(&self, phrase: &Phrase, word: &str, at: usize) -> Self {
        let Some(places) = phrase.places.get(word) else { return Vec::new() };
        let is_there = |begun: &Begun| {
            places.get(begun.words / 64).is_some_and(|bits| bits >> (begun.words % 64) & 1 == 1)
        };
        let all = self.iter().copied().chain([Begun { words: 0, start: at }]);
        let continued = all.filter(is_there);
        continued.map(|begun| Begun { words: begun.words + 1, ..begun }).collect()
    }

    fn add(&mut self, others: Self) {
        self.extend(others);
        self.sort_unstable();
        self.dedup_by_key(|begun| begun.words);
    }

    fn whole(&self, phrase: &Phrase) -> Option<usize> {
        self.iter().find(|begun| begun.words == phrase.count).map(|begun| begun.start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_phrase_is_found_where_its_words_follow_each_other() {
        let find = |text: &str, phrase: &str| {
            let words: Vec<_> = words(phrase).map(|w| folded(&w.written).into_owned()).collect();
            phrase_in(text, true, &words)
        };
        assert_eq!(find("who is on on Call", "on call"), Some(10));
        assert_eq!(find("on, CALL", "on call"), Some(0));
        assert_eq!(find("call on", "on call"), None);
        assert_eq!(find("a long exam-\nple here", "long example here"), Some(2));
        assert_eq!(find("a long exam-\nple here", "exam ple"), Some(7));
        assert_eq!(find("これは日本語です", "日本語"), Some(9));
        assert_eq!(find("a a a b", "a a b"), Some(2));
        assert_eq!(
            find("the hippo-\n\u{c}potamus and GIRAF-\nFES", "hippopotamus and giraffes"),
            Some(4)
        );
        assert_eq!(find("of COVID-\n19", "COVID-19"), Some(3));
        let words = ["on".to_string(), "call".into()];
        assert_eq!(phrase_in("on call", false, &words), None, "the first word may be cut");
    }

    #[test]
    fn a_phrase_has_words_with_signs_whole_or_in_pieces() {
        let text = "emission of CO₂ by Road™ word¹ 株式会社 zero\u{200b}width 10⁵ m²";
        for phrase in [
            "CO2 by",
            "of CO₂ by",
            "co 2 by",
            "2 by road",
            "of CO",
            "by Road word",
            "roadtm word1 株",
            "㍿ zerowidth",
            "zero width 105 m2",
        ] {
            let all: Vec<_> = words(phrase).map(|w| folded(&w.written).into_owned()).collect();
            assert!(phrase_in(text, true, &all).is_some(), "{phrase}");
        }
        for phrase in ["of 2", "co by", "word 株1", "width 5"] {
            let all: Vec<_> = words(phrase).map(|w| folded(&w.written).into_owned()).collect();
            assert_eq!(phrase_in(text, true, &all), None, "{phrase}");
        }
    }

    #[test]
    fn a_phrase_that_may_go_on_in_many_ways_is_looked_for_in_one_go() {
        let long = "a".repeat(40);
        let text = format!("{long}a²\u{200b}{long}a ").repeat(2_000);
        let phrase: Vec<String> = (0..30).map(|_| long.clone()).chain(["z".into()]).collect();
        assert_eq!(phrase_in(&text, true, &phrase), None);
    }

    /// As it is found with all ways one by one.
    fn naive(text: &str, is_begin: bool, phrase: &[String]) -> Option<usize> {
        let all: VecDeque<Word> = words(text).skip(usize::from(!is_begin)).collect();
        beginning(text, &Phrase::of(phrase), &all)
    }

    #[test]
    fn a_phrase_of_equal_words_takes_a_few_numbers_for_each_word_of_the_longest_text() {
        // The most words that a query may have, in as much text as is read for a page.
        let phrase: Vec<String> = vec!["a".into(); 249];
        let others: Vec<String> = [vec!["a".into(); 248], vec!["b".into()]].concat();
        let text = "a ".repeat(1024 * 1024);
        let mut place = Place::<Bits>::default();
        for word in words(&text[..4096]) {
            place.advance((&text, &Phrase::of(&others)), None, &word);
            assert!(place.ways.0.len() <= 4);
        }
        assert_eq!(phrase_in(&text, true, &phrase), Some(0));
        assert_eq!(phrase_in(&text, true, &others), None);
        let with_end = format!("{text}b");
        assert_eq!(phrase_in(&with_end, true, &others), Some(text.len() - 2 * 248));
        // Signs may be several words each.
        let most: Vec<String> = vec!["a".into(); 2000];
        assert_eq!(phrase_in(&"a ".repeat(1999), true, &most), None);
        assert_eq!(phrase_in(&"a ".repeat(2001), true, &most), Some(0));
        assert_eq!(phrase_in(&text, true, &[]), None);
    }

    proptest! {
        #[test]
        fn a_phrase_is_found_as_in_the_list_of_words(text in "[abc ]{0,60}", phrase in "[abc] [abc] [abc]") {
            let all = |text: &str| -> Vec<String> { words(text).map(|w| w.written.to_string()).collect() };
            let (of, wanted) = (all(&text), all(&phrase));
            let has = of.windows(wanted.len()).any(|window| window == wanted);
            prop_assert_eq!(phrase_in(&text, true, &wanted).is_some(), has);
        }

        #[test]
        fn a_phrase_begins_where_the_first_of_all_ways_does(
            text in "([ab]{1,2}|²|\u{200b}|-\n| |, ){0,80}",
            phrase in prop::collection::vec(prop::sample::select(vec!["a", "b", "ab", "2", "a2", "aa"]), 1..140),
            length in 1..140_usize,
            is_begin: bool,
        ) {
            let phrase: Vec<String> = phrase.iter().take(length).map(|word| word.to_string()).collect();
            prop_assert_eq!(phrase_in(&text, is_begin, &phrase), naive(&text, is_begin, &phrase));
            // One that is there.
            let all: Vec<String> =
                words(&text).map(|word| folded(&word.written).into_owned()).take(length).collect();
            let found = phrase_in(&text, is_begin, &all);
            prop_assert_eq!(found, naive(&text, is_begin, &all));
            prop_assert!(!is_begin || all.is_empty() || found.is_some());
        }
    }
}
