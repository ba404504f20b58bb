//! What a search finds: forms of words, accents, beginnings, phrases, and scripts without blanks.

use super::*;

/// A knowledge base with these documents, and the names that a search finds before and after they are
/// merged, which must be the same.
struct Base {
    fixture: Fixture,
    base: Id<KnowledgeBase>,
}

impl Base {
    fn of(documents: &[(&str, &str)]) -> Self {
        let fixture = Fixture::new();
        let base = make(&fixture);
        for (name, text) in documents {
            add(&fixture, base, name, text);
        }
        Base { fixture, base }
    }

    fn found(&self, q: &str) -> Vec<String> {
        found(&self.fixture, self.base, q)
    }

    /// Asserts what each search finds, at any step of the merge.
    #[track_caller]
    fn assert(&self, expected: &[(&str, &[&str])]) {
        loop {
            for (q, names) in expected {
                assert_eq!(self.found(q), *names, "{q}");
            }
            self.fixture.assert_sound();
            if !merge_step(&self.fixture, self.base) {
                break;
            }
        }
    }
}

#[test]
fn words_are_found_in_any_case_form_and_width() {
    let base = Base::of(&[
        ("1", "ΟΔΥΣΣΕΥΣ und die Größe"),
        ("2", "The depart\u{ad}ment, the ﬁle, ＡＢＣ"),
        ("3", "Cafe\u{301} a\u{200d}b"),
        ("4", "ışık"),
    ]);
    base.assert(&[
        ("οδυσσευς", &["1"]),
        ("GRÖSSE", &["1"]),
        ("GRO\u{308}SSE", &["1"]),
        ("department", &["2"]),
        ("dep\u{ad}artment", &["2"]),
        ("FILE", &["2"]),
        ("abc", &["2"]),
        ("caf\u{e9}", &["3"]),
        ("ab", &["3"]),
        ("IŞIK", &["4"]),
    ]);
}

#[test]
fn accents_may_be_left_out_and_the_exact_spelling_comes_first() {
    let base = Base::of(&[
        ("accent", "a café in town"),
        ("plain", "a cafe in town"),
        ("other", "a cafè in town"),
    ]);
    base.assert(&[
        ("café", &["accent", "other", "plain"]),
        ("cafe", &["plain", "other", "accent"]),
        ("CAFÈ", &["other", "plain", "accent"]),
        ("\"café\"", &["accent"]),
        ("\"cafe\"", &["plain"]),
    ]);
}

#[test]
fn signs_are_found_as_what_they_stand_for() {
    let base = Base::of(&[
        ("signs", "CO₂ emission ㎏ of 10⁵ m² x2 ①② № ㍿ ™ zero\u{200b}width"),
        ("plain", "CO2 of 株式会社"),
        ("other", "2 of co"),
    ]);
    base.assert(&[
        ("kg", &["signs"]),
        ("㎏", &["signs"]),
        ("105", &["signs"]),
        ("10⁵", &["signs"]),
        ("m2", &["signs"]),
        ("12", &["signs"]),
        ("\"①②\"", &["signs"]),
        ("no", &["signs"]),
        ("tm", &["signs"]),
        ("zerowidth", &["signs"]),
        ("\"zero width\"", &["signs"]),
        ("CO2", &["plain", "signs"]),
        ("\"CO2\"", &["plain", "signs"]),
        ("\"CO₂\"", &["plain", "signs"]),
        ("\"co 2\"", &["signs"]),
        ("\"CO₂ of\"", &["plain"]),
        ("\"会社\"", &["plain", "signs"]),
    ]);
    let hit = &hits(&base.fixture, base.base, "\"CO₂ emission\"")[0];
    assert_eq!(hit["highlights"], json!([{"start": 0, "end": 3}, {"start": 4, "end": 12}]));
}

#[test]
fn words_are_found_by_their_beginning() {
    let base = Base::of(&[
        ("1", "the department"),
        ("2", "a déparure"),
        ("3", "depth and deposit, depth"),
        ("4", "some debt"),
    ]);
    base.assert(&[
        ("depart*", &["1"]),
        ("dépar*", &["2", "1"]),
        ("DEP*", &["3", "1", "2"]),
        ("dep", &[]),
        ("de* debt", &["4", "3", "1", "2"]),
        ("zz*", &[]),
    ]);
}

#[test]
fn a_beginning_of_many_words_is_that_of_the_first_ones() {
    let text: String = (0..600).map(|n| format!("ww{n:03} ")).collect();
    let base = Base::of(&[("all", &text), ("last", "ww599"), ("first", "ww000")]);
    merge_all(&base.fixture, base.base);
    assert_eq!(base.found("ww*"), ["first", "all"]);
    assert_eq!(base.found("ww59*"), ["last", "all"]);
}

#[test]
fn a_beginning_of_too_many_postings_is_that_of_as_many_as_there_is_room_for() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    for n in 0..10 {
        add(&fixture, base, &format!("a{n}"), &format!("start{n}"));
        add(&fixture, base, &format!("o{n}"), &format!("stop{n}"));
    }
    merge_all(&fixture, base);
    let found = |q| walk(&fixture, base, (q, 2, 5), |_| {});
    assert_eq!(found("start*"), ["a4", "a3", "a2", "a1", "a0"]);
    assert_eq!(found("start* stop*").len(), 5);
    assert_eq!(found("start9*"), ["a9"]);
}

#[test]
fn the_word_itself_comes_before_others_that_begin_so() {
    let base = Base::of(&[("whole", "depart"), ("begun", "departed")]);
    base.assert(&[("depart*", &["whole", "begun"]), ("DÉPART*", &["whole", "begun"])]);
}

#[test]
fn words_over_hyphenated_lines_are_found() {
    let base = Base::of(&[("1", "of the depart-\nment here"), ("2", "the well-\nknown")]);
    base.assert(&[
        ("department", &["1"]),
        ("ment", &["1"]),
        ("known well", &["2"]),
        ("\"the department here\"", &["1"]),
        ("\"well-known\"", &["2"]),
    ]);
    let base = Base::of(&[
        ("page", "the hippo-\n\u{c}potamus"),
        ("heading", "KANGA-\nROO"),
        ("number", "of COVID-\n19"),
    ]);
    base.assert(&[
        ("hippopotamus", &["page"]),
        ("\"the hippopotamus\"", &["page"]),
        ("kangaroo", &["heading"]),
        ("roo", &["heading"]),
        ("\"COVID-19\"", &["number"]),
    ]);
    let base =
        Base::of(&[("1", &format!("a long exam-\nple here {} example", "x ".repeat(9_000)))]);
    base.assert(&[("\"example here\"", &["1"])]);
}

#[test]
fn a_phrase_is_found_where_its_words_follow_each_other() {
    let base = Base::of(&[
        ("1", "Whoever is on call answers."),
        ("2", "Call when you are on; on Call"),
        ("3", "Call first, on second"),
        ("On call", "nothing else"),
    ]);
    for _ in 0..2 {
        for (q, names) in [
            ("\"on call\"", "1 2 On call"),
            ("“ON CALL”", "1 2 On call"),
            ("\"on call\" answers", "1 2 On call"),
            ("\"on call\" \"answers\"", "1"),
            ("\"call answers\"", "1"),
            ("\"on call answers nothing\"", ""),
            ("\"on call", "1 2 3 On call"),
            ("\"\" second", "3"),
        ] {
            let mut found = base.found(q);
            found.sort();
            assert_eq!(found.join(" "), names, "{q}");
        }
        assert_eq!(base.found("\"on call\" answers")[0], "1");
        merge_all(&base.fixture, base.base);
    }
    let hits = hits(&base.fixture, base.base, "\"on call\"");
    let hit = hits.iter().find(|hit| hit["name"] == "2").unwrap();
    assert_eq!(hit["snippet"], "Call when you are on; on Call");
}

#[test]
fn queries_without_words_find_nothing() {
    let base = Base::of(&[("1", "\"quoted\" * \u{301} words")]);
    for q in ["\"", "\"\"", "*", "**", "-!", "\u{301}", "\u{ad}", "\u{200d}\u{fe0f}", "“”", "\"*\""]
    {
        base.assert(&[(q, &[])]);
    }
}

#[test]
fn scripts_without_blanks_are_found_by_pairs_of_characters() {
    let base = Base::of(&[
        ("together", "これは日本語です"),
        ("apart", "本と日"),
        ("line", "昨日の日\n本"),
        ("kana", "コンピュータ"),
        ("korean", "학교에서 공부"),
        ("thai", "ภาษาไทย"),
    ]);
    base.assert(&[
        ("日本", &["line", "together", "apart"]),
        ("語", &["together"]),
        ("日", &["line", "apart", "together"]),
        ("ピュー", &["kana"]),
        ("학교", &["korean"]),
        ("ไทย", &["thai"]),
        ("\"日本\"", &["line", "together"]),
        ("\"本日\"", &[]),
    ]);
}

#[test]
fn phrases_are_looked_for_page_by_page_in_a_bounded_amount_of_text() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    let filler = "on a call ".repeat(25_000);
    for n in 0..12 {
        let end = if n % 4 == 1 { "on call" } else { "" };
        add(&fixture, base, &format!("d{n}"), &format!("{filler}{end}"));
    }
    merge_all(&fixture, base);
    let mut pages = 0;
    let mut names = walk(&fixture, base, ("\"on call\"", 50, 200_000), |_| pages += 1);
    names.sort();
    assert_eq!(names, ["d1", "d5", "d9"]);
    assert!((1..6).contains(&pages), "{pages}");
}

#[test]
fn phrases_are_looked_for_in_a_bounded_number_of_documents_for_a_page() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    for n in 0..600 {
        let text = if n % 100 == 0 { "on call" } else { "call on" };
        add(&fixture, base, &format!("d{n}"), text);
    }
    merge_all(&fixture, base);
    let (mut pages, query) = (0, ("\"on call\"", 4, 200_000));
    let names = walk(&fixture, base, query, |_| pages += 1);
    assert_eq!(names, ["d500", "d400", "d300", "d200", "d100", "d0"]);
    assert!(pages > 1);
}

#[test]
fn a_query_as_long_as_may_be_is_answered_page_by_page() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    let words: Vec<String> = (0..32).map(|n| format!("würdé{n:05}ß")).collect();
    for n in 0..9 {
        add(&fixture, base, &format!("d{n}"), &words[n..].join(" "));
    }
    let query: String = words.join(" ").chars().take(500).collect();
    let names = walk(&fixture, base, (&query, 2, 200_000), |_| {});
    assert_eq!(names.len(), 9);
    let cjk: String = (0..32).map(|n| char::from_u32(0x4e00 + n).unwrap()).collect();
    assert_eq!(found(&fixture, base, &cjk), Vec::<String>::new());
    let kana = "カ".repeat(500);
    assert_eq!(found(&fixture, base, &kana), Vec::<String>::new());
}
