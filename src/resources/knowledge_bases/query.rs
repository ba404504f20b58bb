//! What is searched for: words, phrases in quotes, beginnings of words.

use std::collections::BTreeSet;
use std::ops::Range;

use super::language::Language;
use super::words::{Pairs, Word, bare, bare_term, earlier_form, folded, words};
use crate::base::is_ignorable;

/// Of the pairs of a query 32 are looked up, as of its words.
const MAX_PAIRS: usize = 32;

/// Each beginning of a word is up to some hundred lists to read.
const MAX_BEGINNINGS: usize = 2;

/// How much a word counts that differs from one of the query in its accents.
const WITHOUT_ACCENTS: f32 = 0.6;

/// How much another form of a word counts, in the language of the knowledge base.
const OTHER_FORM: f32 = 0.5;

/// How much another form counts that is found if accents are left out.
const OTHER_FORM_WITHOUT_ACCENTS: f32 = OTHER_FORM * WITHOUT_ACCENTS;

/// How much a pair counts beside the word that it is in, and a character beside its pairs.
const PAIR_IN_WORD: f32 = 0.5;
const CHARACTER_IN_PAIR: f32 = 0.2;

/// How much a piece counts of a word with soft hyphens or signs: documents of earlier versions have no
/// more of it.
const PIECE_OF_WORD: f32 = 0.5;

/// A word has at most 8 pieces, and all words of a query 32: each is a list to read.
const MAX_PIECES_OF_WORD: usize = 8;
const MAX_PIECES: usize = 32;

/// How much words count that begin so beside the one that is there in whole.
const BEGINNING_OF_WORD: f32 = 0.5;

/// What is searched for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// The terms to look up, in the order of their bytes.
    pub terms: Vec<String>,
    /// The beginnings of terms to look up, in this order, too.
    pub beginnings: Vec<String>,
    pub parts: Vec<Part>,
    /// Words that must follow each other, folded.
    pub phrases: Vec<Vec<String>>,
    /// The language whose forms of words are looked up.
    pub language: Option<Language>,
}

/// A word of a query, with all that it is looked up as.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Numbers of terms, and of beginnings after those, with how much each counts.
    pub members: Vec<(usize, f32)>,
    /// Those of them that are but pieces of the word, which many more documents may have.
    pub pieces: Vec<usize>,
    /// Whether only documents that have it are found.
    pub is_required: bool,
    shown: Shown,
}

/// Which words of a text are those of a part.
#[derive(Clone, Debug, PartialEq)]
enum Shown {
    Word(String),
    /// As it is spelled, without accents, and its stems.
    WordOrBare(String, String, Vec<String>),
    Beginning(String, String),
    Pair(String),
}

/// A part before its terms are numbered.
struct NewPart {
    terms: Vec<(String, f32)>,
    pieces: Vec<String>,
    beginnings: Vec<(String, f32)>,
    is_required: bool,
    shown: Shown,
}

impl Query {
    /// Returns what a text searches for, in the language of the knowledge base. Quotes that do not close
    /// are punctuation.
    pub fn parse(text: &str, language: Option<Language>) -> Self {
        let quoted = quoted(text);
        let mut parts: Vec<NewPart> = Vec::new();
        let mut phrases = vec![Vec::new(); quoted.len()];
        let (mut pairs, mut new_pairs) = (Pairs::default(), Vec::new());
        let (mut beginnings, mut pieces) = (0, MAX_PIECES);
        let mut is_read = vec![false; quoted.len()];
        for word in words(text) {
            let form = folded(&word.written).into_owned();
            let at = new_pairs.len();
            pairs.add(text, &word, &form, |pair| new_pairs.push(pair));
            if let Some(phrase) = quoted.iter().position(|range| range.contains(&word.at)) {
                new_pairs.truncate(at);
                add(&mut parts, NewPart::exact(&word, &form, &mut pieces));
                // Documents that have only a piece of it are not meant.
                is_read[phrase] |= !phrases[phrase].is_empty() || !word.pieces.is_empty();
                phrases[phrase].push(form);
            } else if beginnings < MAX_BEGINNINGS && is_beginning(text, &word, &form) {
                beginnings += 1;
                add(&mut parts, NewPart::beginning(&word, form));
            } else {
                add(&mut parts, NewPart::word(&word, form, &mut pieces, language));
            }
        }
        weigh_pairs(&mut parts, new_pairs);
        // One word is one that is required: the text need not be read for it.
        let mut is_read = is_read.into_iter();
        phrases.retain(|_| is_read.next() == Some(true));
        Query { language, ..Self::numbered(parts, phrases) }
    }

    fn numbered(new: Vec<NewPart>, phrases: Vec<Vec<String>>) -> Self {
        let of = |terms: fn(&NewPart) -> &Vec<(String, f32)>| -> Vec<String> {
            let all: BTreeSet<_> =
                new.iter().flat_map(terms).map(|(term, _)| term.clone()).collect();
            all.into_iter().collect()
        };
        let (terms, beginnings) = (of(|part| &part.terms), of(|part| &part.beginnings));
        let mut parts: Vec<Part> = Vec::new();
        for NewPart { terms: own, pieces, beginnings: begins, is_required, shown } in &new {
            if parts.iter().any(|part| part.shown == *shown && part.is_required == *is_required) {
                continue;
            }
            let number =
                |all: &[String], term: &String| all.binary_search(term).unwrap_or_default();
            let own = own.iter().map(|(term, weight)| (number(&terms, term), *weight));
            let begins = begins
                .iter()
                .map(|(begin, weight)| (terms.len() + number(&beginnings, begin), *weight));
            let members = own.chain(begins).collect();
            let pieces = pieces.iter().map(|piece| number(&terms, piece)).collect();
            let (is_required, shown) = (*is_required, shown.clone());
            parts.push(Part { members, pieces, is_required, shown });
        }
        Query { terms, beginnings, parts, phrases, language: None }
    }

    /// Returns the number of different words in a query.
    pub fn count_words(text: &str) -> usize {
        let all: BTreeSet<_> = words(text).map(|word| folded(&word.written).into_owned()).collect();
        all.len()
    }

    /// Returns the number of the first part that a word of a text is.
    pub fn part_of(&self, written: &str) -> Option<usize> {
        let form = folded(written);
        let bare = bare(&form);
        let stem = self.language.map(|language| language.stem(&form));
        let has_stem = |own: &[String]| {
            let (Some(language), Some(stem)) = (self.language, &stem) else { return false };
            // Most words begin otherwise, and their other stem need not be found.
            let is_near = |own: &String| own.chars().take(2).eq(bare.chars().take(2));
            own.contains(stem)
                || own.iter().any(is_near)
                    && language
                        .stem_without_accents(&form, stem)
                        .is_some_and(|it| own.contains(&it))
        };
        self.parts.iter().position(|part| match &part.shown {
            Shown::Word(word) => *word == form,
            Shown::WordOrBare(word, without, own) => {
                *word == form || *without == bare || has_stem(own)
            }
            Shown::Beginning(begin, without) => {
                form.starts_with(begin) || bare.starts_with(without)
            }
            Shown::Pair(pair) => form.contains(pair),
        })
    }
}

#[cfg(test)]
impl Part {
    /// A part of these terms.
    pub fn of(members: Vec<(usize, f32)>, is_required: bool) -> Self {
        let shown = Shown::Word(String::new());
        Part { members, pieces: Vec::new(), is_required, shown }
    }
}

/// Those of the terms as which a word is spelled that are pieces of it.
fn pieces_of(spelled: &[(String, f32)]) -> Vec<String> {
    let pieces = spelled.iter().skip(1).filter(|(_, weight)| *weight < 1.0);
    pieces.map(|(piece, _)| piece.clone()).collect()
}

/// Adds a part, unless there is one of the same word, whatever else that is spelled as.
fn add(parts: &mut Vec<NewPart>, new: NewPart) {
    let is_same = |part: &NewPart| part.shown == new.shown && part.is_required == new.is_required;
    if !parts.iter().any(is_same) {
        parts.push(new);
    }
}

/// Adds the pairs, and lets characters count for less that are in one.
fn weigh_pairs(parts: &mut Vec<NewPart>, pairs: Vec<String>) {
    for part in &mut *parts {
        let Shown::WordOrBare(word, ..) = &part.shown else { continue };
        if pairs.iter().any(|pair| pair[1..] != *word && pair[1..].contains(word.as_str())) {
            part.terms.iter_mut().for_each(|(_, weight)| *weight *= CHARACTER_IN_PAIR);
        }
    }
    let words: Vec<String> = parts.iter().filter_map(NewPart::long_word).collect();
    for pair in pairs.into_iter().take(MAX_PAIRS) {
        let is_in_word = words.iter().any(|word| word.contains(&pair[1..]));
        let weight = if is_in_word { PAIR_IN_WORD } else { 1.0 };
        let shown = Shown::Pair(pair[1..].into());
        let terms = vec![(pair, weight)];
        let (pieces, beginnings) = (Vec::new(), Vec::new());
        parts.push(NewPart { terms, pieces, beginnings, is_required: false, shown });
    }
}

impl NewPart {
    fn exact(word: &Word, form: &str, pieces: &mut usize) -> Self {
        // Of its pieces the longest: documents that have that one are read for the others. Signs were no
        // words in earlier documents.
        let letters = |piece: &&str| {
            piece.chars().filter(|c| c.is_alphabetic() || c.is_ascii_digit()).count()
        };
        let longest = word.pieces.iter().map(|piece| piece.written).max_by_key(letters);
        let terms = Self::spelled(word, form, longest, pieces);
        let (pieces, shown) = (pieces_of(&terms), Shown::Word(form.into()));
        NewPart { terms, pieces, beginnings: Vec::new(), is_required: true, shown }
    }

    fn word(word: &Word, form: String, pieces: &mut usize, language: Option<Language>) -> Self {
        let mut terms = Self::spelled(word, &form, None, pieces);
        let mut pieces = pieces_of(&terms);
        for piece in pieces.clone() {
            let without = bare(&piece).into_owned();
            let stem = language.map(|language| language.stem_term(&language.stem(&piece)));
            let bare = (without != piece).then(|| [bare_term(&without), without]);
            for other in stem.into_iter().chain(bare.into_iter().flatten()) {
                if terms.iter().all(|(term, _)| *term != other) {
                    pieces.push(other.clone());
                    terms.push((other, PIECE_OF_WORD * WITHOUT_ACCENTS));
                }
            }
        }
        let without = bare(&form).into_owned();
        terms.push((bare_term(&without), WITHOUT_ACCENTS));
        if without != form {
            terms.push((without.clone(), WITHOUT_ACCENTS));
        }
        let mut stems = Vec::new();
        if let Some(language) = language {
            let stem = language.stem(&form);
            let other = language.stem_without_accents(&form, &stem);
            for (stem, weight) in [(Some(stem), OTHER_FORM), (other, OTHER_FORM_WITHOUT_ACCENTS)] {
                let Some(stem) = stem else { continue };
                // A word that is its own stem has no term for it.
                let others = [language.stem_term(&stem), stem.clone(), bare_term(&stem)];
                for other in others {
                    if terms.iter().all(|(term, _)| *term != other) {
                        terms.push((other, weight));
                    }
                }
                stems.push(stem);
            }
        }
        let shown = Shown::WordOrBare(form, without, stems);
        NewPart { terms, pieces, beginnings: Vec::new(), is_required: false, shown }
    }

    fn beginning(word: &Word, form: String) -> Self {
        let without = bare(&form).into_owned();
        // Its pieces would be beginnings of many other words.
        let whole = Self::word(word, form.clone(), &mut 0, None);
        let begin = |(term, weight): &(String, f32)| (term.clone(), weight * BEGINNING_OF_WORD);
        let beginnings = whole.terms.iter().map(begin).collect();
        NewPart { beginnings, shown: Shown::Beginning(form, without), ..whole }
    }

    /// The word as it is spelled, also in the forms of earlier documents: those that have no signs read,
    /// and those of version 0.1, which cut it at what shows nothing besides, joiners excepted. At most
    /// `room` pieces are looked up, and taken from it; `only` the forms of one, if that is given.
    fn spelled(
        word: &Word,
        form: &str,
        only: Option<&str>,
        room: &mut usize,
    ) -> Vec<(String, f32)> {
        let is_apart = |c: char| is_ignorable(c) && !matches!(c, '\u{200c}' | '\u{200d}');
        let whole: &str = &word.written;
        let without_signs = word.pieces.iter().map(|piece| piece.written);
        let without_signs = without_signs.filter(|piece| only.is_none_or(|only| *piece == only));
        let former = without_signs.chain(word.pieces.is_empty().then_some(whole));
        let earlier = |former: &str| -> Vec<String> {
            let pieces = former.split(is_apart).filter(|one| !one.is_empty());
            let pieces = pieces.take(MAX_PIECES_OF_WORD).map(earlier_form);
            pieces.chain([folded(former).into_owned()]).collect()
        };
        let mut pieces: Vec<String> = Vec::new();
        for piece in former.take(MAX_PIECES_OF_WORD).flat_map(earlier) {
            if piece != form && !pieces.contains(&piece) {
                pieces.push(piece);
            }
        }
        let mut weight = 1.0;
        if pieces.len() > 1 || !word.pieces.is_empty() {
            pieces.truncate(MAX_PIECES_OF_WORD.min(*room));
            *room -= pieces.len();
            weight = PIECE_OF_WORD;
        }
        let mut terms = vec![(form.to_string(), 1.0)];
        terms.extend(pieces.into_iter().map(|piece| (piece, weight)));
        terms
    }

    /// The word, if it has several characters.
    fn long_word(&self) -> Option<String> {
        match &self.shown {
            Shown::WordOrBare(word, ..) if word.chars().nth(1).is_some() => Some(word.clone()),
            _ => None,
        }
    }
}

/// Whether a word is followed by an asterisk that ends it, and has two characters or more.
fn is_beginning(text: &str, word: &Word, form: &str) -> bool {
    let mut rest = text[word.end..].chars();
    rest.next() == Some('*')
        && !rest.next().is_some_and(char::is_alphanumeric)
        && form.chars().nth(1).is_some()
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '‟' | '«' | '»')
}

/// Returns what is between quotes. One within a word, as in `5"`, opens and closes nothing.
fn quoted(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut open, mut before) = (Vec::new(), None, None);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if is_quote(c) {
            let next = chars.peek().map(|(_, next)| *next);
            match open {
                None if !before.is_some_and(char::is_alphanumeric) => {
                    open = Some(at + c.len_utf8())
                }
                Some(start) if !next.is_some_and(char::is_alphanumeric) => {
                    found.push(start..at);
                    open = None;
                }
                _ => {}
            }
        }
        before = Some(c);
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::resources::knowledge_bases::segmentation::former;

    /// The terms of each part with their weights in percent; beginnings end in `*`.
    fn parts(text: &str) -> Vec<String> {
        let query = Query::parse(text, None);
        let begins = query.beginnings.iter().map(|begin| format!("{begin}*"));
        let all: Vec<String> = query.terms.iter().cloned().chain(begins).collect();
        let part = |part: &Part| {
            let of = |(at, weight): &(usize, f32)| format!("{}:{:.0}", all[*at], weight * 100.0);
            let members: Vec<_> = part.members.iter().map(of).collect();
            format!("{}{}", if part.is_required { "!" } else { "" }, members.join(" "))
        };
        query.parts.iter().map(part).collect()
    }

    #[test]
    fn a_word_is_looked_up_as_it_is_spelled_and_without_accents() {
        assert_eq!(parts("cafe"), ["cafe:100 ~cafe:60"]);
        assert_eq!(parts("Café"), ["café:100 ~cafe:60 cafe:60"]);
        assert_eq!(parts("the THE"), ["the:100 ~the:60"]);
        assert_eq!(parts("Straße"), ["strasse:100 straße:100 ~strasse:60"]);
        assert_eq!(parts("so\u{ad}ft"), ["soft:100 so:50 ft:50 ~soft:60"]);
    }

    #[test]
    fn a_word_with_signs_is_looked_up_whole_and_in_its_pieces() {
        assert_eq!(parts("CO₂"), ["co2:100 co:50 2:50 ~co2:60"]);
        assert_eq!(parts("zero\u{200b}width"), ["zerowidth:100 zero:50 width:50 ~zerowidth:60"]);
        assert_eq!(parts("\"so\u{ad}so²\""), ["!soso2:100 so:50 soso:50"]);
        // A document that has only a piece of it is not meant.
        assert_eq!(Query::parse("\"CO₂\"", None).phrases, [["co2"]]);
        assert_eq!(Query::parse("\"CO2\"", None).phrases, Vec::<Vec<String>>::new());
    }

    #[test]
    fn other_forms_of_a_word_count_for_less_in_the_language() {
        let of = |text: &str| {
            let query = Query::parse(text, Some(Language::En));
            let of = |(at, weight): &(usize, f32)| {
                format!("{}:{weight}", query.terms.get(*at).map_or("*", String::as_str))
            };
            let part = |part: &Part| part.members.iter().map(of).collect::<Vec<_>>().join(" ");
            query.parts.iter().map(part).collect::<Vec<_>>()
        };
        assert_eq!(of("answers"), ["answers:1 ~answers:0.6 ^en:answer:0.5 answer:0.5 ~answer:0.5"]);
        assert_eq!(of("answer"), ["answer:1 ~answer:0.6 ^en:answer:0.5"]);
        assert_eq!(of("\"answers\" answers*"), ["answers:1", "answers:1 ~answers:0.6 *:0.5 *:0.3"]);
        let query = Query::parse("answers", Some(Language::En));
        assert_eq!((query.part_of("Answering"), query.part_of("ans")), (Some(0), None));
        assert_eq!(Query::parse("answers", None).part_of("answering"), None);
    }

    #[test]
    fn what_is_in_quotes_is_required_and_as_it_is_spelled() {
        assert_eq!(parts("\"on Café\" x"), ["!on:100", "!café:100", "x:100 ~x:60"]);
        assert_eq!(Query::parse("\"on Call\" x “b c”", None).phrases, [["on", "call"], ["b", "c"]]);
        for open in ["\"on call", "on call\"", "5\" on call 3\" x", "\"\" on call", "\"!\" on call"]
        {
            let query = Query::parse(open, None);
            assert_eq!(query.phrases, Vec::<Vec<String>>::new(), "{open}");
            assert!(query.parts.iter().all(|part| !part.is_required), "{open}");
        }
    }

    #[test]
    fn an_asterisk_makes_the_beginning_of_a_word() {
        assert_eq!(parts("caf*"), ["caf:100 ~caf:60 caf*:50 ~caf*:30"]);
        let cafe = "café:100 ~cafe:60 cafe:60 café*:50 ~cafe*:30 cafe*:30";
        assert_eq!(parts("Café*, x"), [cafe, "x:100 ~x:60"]);
        for none in ["a*", "*ab", "ab *", "ab*c", "\"ab*\"", "*", "**"] {
            assert_eq!(Query::parse(none, None).beginnings, Vec::<String>::new(), "{none}");
        }
        assert_eq!(Query::parse("ab* cd* ef* gh* ij*", None).beginnings.len(), 4);
    }

    #[test]
    fn what_shows_nothing_makes_no_more_to_look_up() {
        let letters: Vec<String> = ('a'..='z').map(String::from).collect();
        let word = letters.join("\u{ad}");
        let query = Query::parse(&format!("{word}*"), None);
        assert_eq!(query.beginnings.len(), 2);
        assert_eq!(query.terms.len(), 2);
        assert_eq!(Query::parse(&word, None).terms.len(), 2 + MAX_PIECES_OF_WORD);
        let word = |n| format!("a{n}\u{ad}b{n}\u{ad}c{n}\u{ad}d{n} ");
        let words: String = (0..20).map(word).collect();
        assert_eq!(Query::parse(&words, None).terms.len(), 2 * 20 + MAX_PIECES);
        // One word, spelled in many ways.
        let cut = |n| "abcdefghi".split_at(n);
        let same: String = (1..9).map(cut).map(|(a, b)| format!("{a}\u{ad}{b} ")).collect();
        assert_eq!(Query::parse(&same, None).terms.len(), 4);
    }

    #[test]
    fn characters_count_for_less_than_their_pairs() {
        assert_eq!(parts("日本"), ["日:20 ~日:12", "本:20 ~本:12", "&日本:100"]);
        assert_eq!(parts("日"), ["日:100 ~日:60"]);
        assert_eq!(parts("학교"), ["학교:100 ~학교:60", "&학교:50"]);
    }

    #[test]
    fn words_of_a_text_are_those_of_a_part() {
        let query = Query::parse("café dep* \"on\" 학교", None);
        let of = |word: &str| query.part_of(word);
        assert_eq!((of("CAFÉ"), of("cafe"), of("cafes")), (Some(0), Some(0), None));
        assert_eq!((of("Départ"), of("dep"), of("de")), (Some(1), Some(1), None));
        assert_eq!((of("On"), of("ön"), of("학교에서")), (Some(2), None, Some(4)));
    }

    proptest! {
        #[test]
        fn words_of_documents_of_earlier_forms_are_looked_up(
            text in "[a-cA-Z1é日한カ①²½㎏㍿™ﬁ⑴\u{200b}\u{ad}\u{301} .]{0,14}",
        ) {
            let query = Query::parse(&text, None);
            let forms: Vec<_> = words(&text).map(|word| folded(&word.written).into_owned()).collect();
            // Of a word that is spelled in two ways one is looked up.
            let is_once = forms.iter().collect::<BTreeSet<_>>().len() == forms.len();
            let former = if is_once { former(&text) } else { Vec::new() };
            for (_, word) in former {
                prop_assert!(query.terms.contains(&folded(word).into_owned()), "{}", word);
                let is_cut = |c| matches!(c, '\u{ad}' | '\u{200b}');
                for piece in word.split(is_cut).filter(|piece| !piece.is_empty()) {
                    prop_assert!(query.terms.contains(&earlier_form(piece)), "{}", piece);
                }
            }
        }

        #[test]
        fn any_query_has_parts_of_its_own_terms(text in "[\\PC\"*日本학교é\u{ad}]{0,80}") {
            let query = Query::parse(&text, None);
            let all = query.terms.len() + query.beginnings.len();
            prop_assert!(query.parts.iter().flat_map(|part| &part.members).all(|(at, _)| *at < all));
            let words = Query::count_words(&text);
            prop_assert!(query.parts.len() <= 2 * words + MAX_PAIRS + MAX_BEGINNINGS);
            prop_assert_eq!(words == 0, query.parts.is_empty());
        }
    }
}
