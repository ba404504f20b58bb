//! Other forms of words, in the language of a knowledge base.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::terms::DocumentTerms;
use super::extending::{extend_step, form, sweep};
use super::*;
use crate::store::Record as _;

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
    run(&fixture, write_prepared, args(base, content::Prepared::new("d", text))).unwrap();
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
    let prepared = content::Prepared::new("d", words.repeat(3));
    run_between(&fixture, write_prepared, args(base, prepared), |parts| {
        if parts == 2 {
            set_language(&fixture, base, Some("sv"));
            extend_all(&fixture, base);
        }
    })
    .unwrap();
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

/// The terms that are stems, of all contents and of the index.
fn stems(fixture: &Fixture) -> (Vec<String>, Vec<String>) {
    let read = |view: &View| {
        let mut own = std::collections::BTreeSet::new();
        for row in view.all::<DocumentTerms>(ListSource::TABLE, &())? {
            for entry in row.entries() {
                own.insert(entry?.0.to_string());
            }
        }
        let mut indexed = std::collections::BTreeSet::new();
        for chunk in view.all::<postings::DocumentPostings>(ListSource::TABLE, &())? {
            indexed.insert(chunk.key().1);
        }
        Ok((own, indexed))
    };
    let (own, indexed) = fixture.store.read_now(fixture.org, read).unwrap();
    let stems = |of: std::collections::BTreeSet<String>| {
        of.into_iter().filter(|term| term.starts_with('^')).collect()
    };
    (stems(own), stems(indexed))
}

#[test]
fn the_stems_of_a_former_language_go() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    set_language(&fixture, base, Some("en"));
    add(&fixture, base, "a", "answering machines");
    merge_all(&fixture, base);
    // One that is not merged yet, and one that goes.
    add(&fixture, base, "b", "machines");
    let gone = add(&fixture, base, "c", "houses");
    let of = |stems: &[&str]| stems.iter().map(|stem| stem.to_string()).collect::<Vec<_>>();
    for (language, left) in [
        (Some("de"), of(&["^de:hous", "^de:machin"])),
        (None, of(&[])),
        (Some("en"), of(&["^en:answer", "^en:machin"])),
    ] {
        set_language(&fixture, base, language);
        if language.is_none() {
            delete_document(&fixture, base, gone);
        }
        extend_all(&fixture, base);
        fixture.complete_removals();
        fixture.assert_sound();
        assert_eq!(stems(&fixture), (left.clone(), left), "{language:?}");
    }
}

#[test]
fn in_any_order_of_changes_the_index_has_the_stems_of_its_language_and_no_others() {
    let texts = ["answering machines", "Häuser and houses", "aimée, knihách", "plain", "knihami"];
    for seed in 0..24_u64 {
        let fixture = Fixture::new();
        let base = make(&fixture);
        let mut state = seed + 1;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let (mut ids, mut language) = (Vec::new(), None);
        for _ in 0..60 {
            match random(9) {
                0 => {
                    language = [None, Some("en"), Some("de"), Some("cs")][random(4)];
                    set_language(&fixture, base, language);
                }
                1 | 2 => ids.push(add(&fixture, base, "d", texts[random(texts.len())])),
                3 if !ids.is_empty() => {
                    delete_document(&fixture, base, ids.swap_remove(random(ids.len())));
                }
                4 if !ids.is_empty() => {
                    let (id, text) = (ids[random(ids.len())], texts[random(texts.len())]);
                    replace(&fixture, base, id, "d", text);
                }
                5 | 6 => drop(merge_step(&fixture, base)),
                _ if form(&fixture, base).is_some_and(|form| form.job.is_some()) => {
                    extend_step(&fixture, base);
                }
                _ => {}
            }
            fixture.assert_sound();
        }
        while form(&fixture, base).is_some_and(|form| form.job.is_some())
            && extend_step(&fixture, base)
            || merge_step(&fixture, base)
        {}
        fixture.complete_removals();
        fixture.assert_sound();
        let (own, indexed) = stems(&fixture);
        assert_eq!(own, indexed, "{seed}");
        let begin = language.map(|language| format!("^{language}:"));
        let is_own = |stem: &String| begin.as_ref().is_some_and(|begin| stem.starts_with(begin));
        assert!(own.iter().all(is_own), "{seed}: {language:?} {own:?}");
        let again = Fixture::new();
        let other = make(&again);
        set_language(&again, other, language);
        for id in &ids {
            let read = |view: &View| {
                let document: Document = view.fetch(&(base, *id))?;
                content::text(view, (base, document.ordinal))
            };
            add(&again, other, "d", &fixture.store.read_now(fixture.org, read).unwrap());
        }
        assert_eq!(own, stems(&again).0, "{seed}: as if they were written now");
    }
}

#[test]
fn another_form_is_found_with_accents_and_without_them() {
    let fixture = Fixture::new();
    for (language, texts, queries) in [
        ("cs", ["o knihách", "o knihach"], ["kniha", "knihám", "kniham", "knihou"]),
        ("fr", ["elle est aimée", "elle est aimee"], ["aimer", "aimées", "aimees", "aimé"]),
        ("es", ["él hablaría", "el hablaria"], ["hablar", "hablarías", "hablarias", "hablé"]),
        ("pl", ["czytam książkę", "czytam ksiazke"], ["książka", "ksiazka", "książką", "ksiazki"]),
    ] {
        let base = make(&fixture);
        set_language(&fixture, base, Some(language));
        add(&fixture, base, "with", texts[0]);
        add(&fixture, base, "without", texts[1]);
        for is_merged in [false, true] {
            for q in queries {
                let mut names = found(&fixture, base, q);
                names.sort();
                assert_eq!(names, ["with", "without"], "{q} in {language}, merged: {is_merged}");
                for hit in hits(&fixture, base, q) {
                    assert_eq!(hit["highlights"].as_array().unwrap().len(), 1, "{q}: {hit}");
                }
            }
            merge_all(&fixture, base);
        }
    }
}

#[test]
fn the_end_of_a_merge_looks_for_stems_of_other_languages_only_where_they_would_be() {
    const DOCUMENTS: usize = 30;
    let read = std::sync::Arc::<AtomicUsize>::default();
    let fixture = Fixture::counting(DocumentTerms::TABLE, read.clone());
    let base = make(&fixture);
    set_language(&fixture, base, Some("en"));
    // Some twenty rows of stems each.
    let text: String = (0..1_500).map(|n| format!("{}{n:05}xing ", "lorem".repeat(6))).collect();
    for n in 0..DOCUMENTS {
        add(&fixture, base, &format!("d{n}"), &text);
    }
    let merge = || {
        let merge = |view: &View| super::super::knowledge_base::merge(view, base);
        fixture.store.read_now(fixture.org, merge).unwrap()
    };
    while !merge().is_applied {
        assert!(merge_step(&fixture, base));
    }
    read.store(0, Ordering::Relaxed);
    assert!(merge_step(&fixture, base));
    assert!(!merge().is_applied, "it has ended");
    let read = read.load(Ordering::Relaxed);
    assert!(read <= 8 * DOCUMENTS, "{read}");
}

#[test]
fn stems_are_found_outside_of_the_transaction() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    let long = (0..=100).map(|n| format!("answers{n} ")).collect::<String>();
    let asked = |language: Option<&str>, known: KnownResults| {
        set_language(&fixture, base, language);
        let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let own = asked.clone();
        let known = std::sync::Arc::new(known);
        let who = fixture.member.clone();
        let args = args(base, new("d", &long));
        let write = move |tx: &mut Tx| {
            let mut calls = Calls::new(known.clone());
            let outcome = documents::create(tx, &Req::new(&args, &who), &mut calls);
            *own.lock().unwrap() = calls.into_pending().computations;
            outcome.map(drop)
        };
        let written = fixture.store.write_blocking(fixture.org, write);
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        assert_eq!(written.is_ok(), asked.is_empty());
        asked
    };
    assert!(asked(None, KnownResults::default()).is_empty());
    let mut known = KnownResults::default();
    for language in ["en", "de"] {
        let (tag, compute) = asked(Some(language), known.clone()).pop().expect("it is asked for");
        known.computed.insert(tag, compute());
        assert!(asked(Some(language), known.clone()).is_empty(), "{language}");
    }
}
