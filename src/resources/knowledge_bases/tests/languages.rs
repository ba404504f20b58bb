//! Other forms of words, in the language of a knowledge base.

use super::super::content::DocumentTerms;
use super::extending::{extend_step, form, sweep};
use super::*;

fn set_language(fixture: &Fixture, base: Id<KnowledgeBase>, language: Option<&str>) {
    let input = Fixture::input(json!({"language": language})).unwrap();
    let changed = fixture.write_as(&fixture.owner, update, base, input).unwrap();
    assert_eq!(json!(changed)["language"], json!(language));
}

fn extend_all(fixture: &Fixture, base: Id<KnowledgeBase>) -> usize {
    let more = || extend_step(fixture, base) || merge_step(fixture, base);
    (0..10_000).position(|_| !more()).expect("it ends")
}

#[test]
fn documents_are_found_by_other_forms_once_their_knowledge_base_has_a_language() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    add(&fixture, base, "a", "whoever answered the call");
    add(&fixture, base, "b", "the answers are long, and the text goes on");
    merge_all(&fixture, base);
    assert_eq!(found(&fixture, base, "answers"), ["b"]);
    set_language(&fixture, base, Some("en"));
    // What is written from now on has its stems at once, merged or not.
    add(&fixture, base, "c", "answering machines");
    assert_eq!(found(&fixture, base, "answers"), ["b", "c"]);
    assert!(extend_all(&fixture, base) > 1);
    fixture.assert_sound();
    assert_eq!(found(&fixture, base, "answers"), ["b", "c", "a"], "the exact word is first");
    assert_eq!(found(&fixture, base, "\"answers\""), ["b"]);
    assert_eq!(found(&fixture, base, "machine"), ["c"]);
    let hit = &hits(&fixture, base, "answer")[2]["highlights"];
    assert_eq!(hit.as_array().unwrap().len(), 1, "{hit}");
    // Nothing is left to do.
    let before = form(&fixture, base);
    sweep(&fixture);
    set_language(&fixture, base, Some("en"));
    assert_eq!(form(&fixture, base), before);
}

#[test]
fn another_language_and_none_are_the_ones_that_count_then() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    set_language(&fixture, base, Some("en"));
    let id = add(&fixture, base, "a", "Häuser, answers");
    merge_all(&fixture, base);
    let count = |q: &str| found(&fixture, base, q).len();
    assert_eq!(["answer", "haus"].map(count), [1, 0]);
    set_language(&fixture, base, Some("de"));
    extend_all(&fixture, base);
    assert_eq!(["answered", "haus", "Hauses"].map(count), [0, 1, 1]);
    set_language(&fixture, base, None);
    extend_all(&fixture, base);
    assert_eq!(["answer", "haus", "häuser", "answers"].map(count), [0, 0, 1, 1]);
    fixture.assert_sound();
    set_language(&fixture, base, Some("en"));
    extend_all(&fixture, base);
    assert_eq!(["answered", "haus"].map(count), [1, 0]);
    delete_document(&fixture, base, id);
    merge_all(&fixture, base);
    fixture.complete_removals();
    fixture.assert_sound();
    assert_eq!(super::count::<postings::DocumentPostings>(&fixture), 0);
}

#[test]
fn a_language_may_change_in_the_middle_of_a_document() {
    for next in [Some("de"), None] {
        change_within(next);
    }
}

/// Changes English to another language, or none, while the stems of a document are written.
fn change_within(next: Option<&str>) {
    let fixture = Fixture::new();
    let base = make(&fixture);
    // Stems of more than one part.
    let text: String = (0..30_000).map(|n| format!("{}{n:05}xing ", "lorem".repeat(6))).collect();
    let (name, words) = (Name::parse("d").unwrap(), content::Prepared::new("d", text));
    let words = std::sync::Arc::new(words);
    let mut position = None;
    loop {
        let (name, words, at) = (name.clone(), words.clone(), position.clone());
        let write = move |tx: &mut Tx| {
            let file = documents::File {
                name: &name,
                media_type: document::MediaType::Text,
                size: 0,
                prepared: &words,
                left_out: &[],
                charset: None,
            };
            let calls = Calls::new(Default::default()).at(at.clone());
            documents::write(tx, base, None, &file, &calls)
        };
        match fixture.store.write_blocking(fixture.org, write).unwrap() {
            Outcome::Partial(next) => position = Some(next.next),
            _ => break,
        }
    }
    merge_all(&fixture, base);
    let is_within = || !form(&fixture, base).unwrap().after.is_empty();
    let word = |ending: &str| format!("{}00007x{ending}", "lorem".repeat(6));
    set_language(&fixture, base, Some("en"));
    extend_step(&fixture, base);
    assert!(is_within());
    set_language(&fixture, base, next);
    extend_all(&fixture, base);
    assert!(!is_within());
    fixture.assert_sound();
    set_language(&fixture, base, Some("en"));
    extend_all(&fixture, base);
    fixture.assert_sound();
    assert_eq!(found(&fixture, base, &word("ed")).len(), 1);
}

#[test]
fn a_document_whose_parts_began_in_another_language_begins_anew() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    set_language(&fixture, base, Some("en"));
    let words: String = (0..65_000).map(|n| format!("{n:x}ing ")).collect();
    let prepared = std::sync::Arc::new(content::Prepared::new("d", words.repeat(3)));
    let mut position = None;
    for part in 0.. {
        let (prepared, at) = (prepared.clone(), position.clone());
        let write = move |tx: &mut Tx| {
            let name = Name::parse("d").unwrap();
            let file = documents::File {
                name: &name,
                media_type: document::MediaType::Text,
                size: 0,
                prepared: &prepared,
                left_out: &[],
                charset: None,
            };
            let calls = Calls::new(Default::default()).at(at.clone());
            documents::write(tx, base, None, &file, &calls)
        };
        match fixture.store.write_blocking(fixture.org, write).unwrap() {
            Outcome::Partial(next) => position = Some(next.next),
            Outcome::Done(_) => break,
            Outcome::Refused(error) => panic!("{error}"),
        }
        if part == 1 {
            set_language(&fixture, base, Some("sv"));
            extend_all(&fixture, base);
        }
    }
    merge_all(&fixture, base);
    fixture.assert_sound();
    let content = fixture.store.read_now(fixture.org, |view| {
        DocumentTerms::find_all(view, (base, 2), &["^en:fff", "^sv:fffing", "fffing"])
    });
    let has: Vec<bool> = content.unwrap().iter().map(Option::is_some).collect();
    assert_eq!(has[0..1], [false]);
    assert!(has[2], "its second content is the one that it has");
}

#[test]
fn a_cursor_is_of_one_language() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    set_language(&fixture, base, Some("en"));
    for n in 0..5 {
        add(&fixture, base, &format!("d{n}"), "answers");
    }
    let first = page(&fixture, base, "answers", PageRequest { limit: 2, after: None }).unwrap();
    let next = || PageRequest { limit: 9, after: first.next.clone() };
    assert_eq!(page(&fixture, base, "answers", next()).unwrap().items.len(), 3);
    for language in [Some("sv"), None] {
        set_language(&fixture, base, language);
        assert_eq!(page(&fixture, base, "answers", next()).unwrap_err().kind(), Kind::Invalid);
    }
    assert!(Fixture::input::<KnowledgeBasePatch>(json!({"language": "xx"})).is_err());
    assert!(Fixture::input::<KnowledgeBasePatch>(json!({"language": "EN"})).is_err());
}
