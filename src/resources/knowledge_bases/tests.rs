//! Knowledge bases: writing documents in parts, and finding them before, during and after a merge.

mod extending;
mod finding;
mod languages;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::document::{Document, DocumentContent};
use super::documents::{self, NewDocument};
use super::search::{DocumentSearch, SearchHit, search_within};
use super::*;
use crate::api::{Args, Calls, KnownResults, Outcome, PendingCalls};
use crate::base::Kind;
use crate::outbox::Job;
use crate::resources::testing::{Fixture, args};
use crate::store::PageRequest;

/// A new knowledge base.
fn make(fixture: &Fixture) -> Id<KnowledgeBase> {
    let input = Fixture::input(json!({"name": "Handbook"})).unwrap();
    fixture.write_as(&fixture.owner, create, (), input).unwrap().id
}

/// An operation on documents.
type Operation<P, I, O> = fn(&mut Tx, &Req<P, I>, &mut Calls) -> Result<Outcome<O>>;

/// Runs an operation to its end, part by part; returns its result and the number of parts.
fn run<P, I, O>(
    fixture: &Fixture,
    operation: Operation<P, I, O>,
    args: Args<P, I>,
) -> Result<(O, usize)>
where
    P: Send + Sync + 'static,
    I: Send + Sync + 'static,
    O: Send + 'static,
{
    run_between(fixture, operation, args, |_| {})
}

/// The same, calling `between` with the number of parts that are done after each that is not the last.
fn run_between<P, I, O>(
    fixture: &Fixture,
    operation: Operation<P, I, O>,
    args: Args<P, I>,
    mut between: impl FnMut(usize),
) -> Result<(O, usize)>
where
    P: Send + Sync + 'static,
    I: Send + Sync + 'static,
    O: Send + 'static,
{
    let args = std::sync::Arc::new(args);
    let (mut position, mut parts) = (None, 0);
    let mut known = std::sync::Arc::new(KnownResults::default());
    for _ in 0..10_000 {
        let (who, args, at, results) =
            (fixture.member.clone(), args.clone(), position.clone(), known.clone());
        let asked = std::sync::Arc::new(std::sync::Mutex::new(PendingCalls::default()));
        let pending = asked.clone();
        let outcome = fixture.store.write_blocking(fixture.org, move |tx| {
            let mut calls = Calls::new(results.clone()).at(at.clone());
            let outcome = operation(tx, &Req::new(&args, &who), &mut calls);
            let asked = calls.into_pending();
            let is_discarded = !asked.is_empty();
            *pending.lock().unwrap() = asked;
            if is_discarded {
                Err(crate::base::Error::internal("more is asked for"))
            } else {
                outcome
            }
        });
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        if !asked.is_empty() {
            let children = crate::outside::Children::default();
            let known = std::sync::Arc::make_mut(&mut known);
            let done = asked.works.into_iter().map(|(tag, work)| (tag, work(&children)));
            known.worked.extend(done);
            let computed = asked.computations.into_iter().map(|(tag, compute)| (tag, compute()));
            known.computed.extend(computed);
            continue;
        }
        parts += 1;
        match outcome? {
            Outcome::Done(done) => return Ok((done, parts)),
            Outcome::Partial(next) => position = Some(next.next),
            Outcome::Refused(error) => return Err(error),
        }
        between(parts);
    }
    panic!("it does not end");
}

/// Writes a document of a text whose words are known.
fn write_prepared(
    tx: &mut Tx,
    req: &Req<Id<KnowledgeBase>, content::Prepared>,
    calls: &mut Calls,
) -> Result<Outcome<documents::DocumentInfo>> {
    let name = Name::parse("d").unwrap();
    let file = documents::File {
        name: &name,
        media_type: document::MediaType::Text,
        size: 0,
        prepared: &req.input,
        left_out: &[],
        charset: None,
    };
    documents::write(tx, req.caller().user(), (req.params, None), &file, calls)
}

/// Adds a document; returns its id.
fn add(fixture: &Fixture, base: Id<KnowledgeBase>, name: &str, content: &str) -> Id<Document> {
    add_in_parts(fixture, base, name, content).0
}

fn add_in_parts(
    fixture: &Fixture,
    base: Id<KnowledgeBase>,
    name: &str,
    content: &str,
) -> (Id<Document>, usize) {
    let (made, parts) = run(fixture, documents::create, args(base, new(name, content))).unwrap();
    (made.id, parts)
}

fn new(name: &str, content: &str) -> NewDocument {
    Fixture::input(json!({"name": name, "content": content})).unwrap()
}

fn replace(fixture: &Fixture, base: Id<KnowledgeBase>, id: Id<Document>, name: &str, text: &str) {
    run(fixture, documents::replace, args((base, id), new(name, text))).unwrap();
}

fn delete_document(fixture: &Fixture, base: Id<KnowledgeBase>, id: Id<Document>) {
    run(fixture, documents::delete, args((base, id), ())).unwrap();
}

/// Merges until nothing is left to merge; returns the number of steps.
fn merge_all(fixture: &Fixture, base: Id<KnowledgeBase>) -> usize {
    (0..10_000).position(|_| !merge_step(fixture, base)).expect("a merge ends")
}

fn merge_step(fixture: &Fixture, base: Id<KnowledgeBase>) -> bool {
    fixture.store.write_blocking(fixture.org, move |tx| changes::step(tx, base)).unwrap()
}

fn page(
    fixture: &Fixture,
    base: Id<KnowledgeBase>,
    q: &str,
    page: PageRequest,
) -> Result<Page<SearchHit>> {
    bounded_page(fixture, base, q, page, 200_000)
}

fn bounded_page(
    fixture: &Fixture,
    base: Id<KnowledgeBase>,
    q: &str,
    page: PageRequest,
    max_postings: usize,
) -> Result<Page<SearchHit>> {
    let input: DocumentSearch = Fixture::input(json!({"q": q}))?;
    let args = Args { page, ..args(base, input) };
    let search = |view: &View| search_within(view, &Req::new(&args, &fixture.member), max_postings);
    fixture.store.read_now(fixture.org, search)
}

/// All names that a search finds in pages of `limit`; `between` is called after each page with what
/// was listed until then.
fn walk(
    fixture: &Fixture,
    base: Id<KnowledgeBase>,
    (q, limit, max_postings): (&str, usize, usize),
    mut between: impl FnMut(&[String]),
) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let request = PageRequest { limit, after };
        let page = bounded_page(fixture, base, q, request, max_postings).unwrap();
        names.extend(page.items.iter().map(|hit| json!(hit)["name"].as_str().unwrap().to_string()));
        after = page.next;
        if after.is_none() {
            return names;
        }
        between(&names);
    }
}

/// What a search finds, as JSON.
fn hits(fixture: &Fixture, base: Id<KnowledgeBase>, q: &str) -> Vec<Value> {
    let found = page(fixture, base, q, PageRequest { limit: 200, after: None }).unwrap();
    assert!(found.next.is_none());
    found.items.into_iter().map(|hit| json!(hit)).collect()
}

/// The names that a search finds, best first.
fn found(fixture: &Fixture, base: Id<KnowledgeBase>, q: &str) -> Vec<String> {
    let name = |hit: &Value| hit["name"].as_str().unwrap().to_string();
    hits(fixture, base, q).iter().map(name).collect()
}

#[test]
fn documents_are_found_by_their_words_before_and_after_the_merge() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    add(&fixture, base, "On call", "Whoever is on call answers within 15 minutes.");
    add(&fixture, base, "Leave", "Ask for leave two weeks before; on short notice, call.");
    add(&fixture, base, "Expenses", "Send the receipts.");
    for is_merged in [false, true] {
        assert_eq!(found(&fixture, base, "answers"), ["On call"], "{is_merged}");
        assert_eq!(found(&fixture, base, "ON CALL!"), ["On call", "Leave"], "{is_merged}");
        assert_eq!(found(&fixture, base, "expenses"), ["Expenses"], "{is_merged}");
        assert_eq!(found(&fixture, base, "nothing of this"), Vec::<String>::new());
        assert_eq!(found(&fixture, base, "-!"), Vec::<String>::new());
        fixture.assert_sound();
        assert_eq!(merge_all(&fixture, base) > 0, !is_merged);
    }
    let hit = &hits(&fixture, base, "15 minutes")[0];
    assert_eq!(hit["snippet"], "Whoever is on call answers within 15 minutes.");
    assert_eq!(hit["highlights"], json!([{"start": 34, "end": 36}, {"start": 37, "end": 44}]));
    assert!(hit["score"].as_f64().unwrap() > 0.0);
    assert_eq!(hits(&fixture, base, "expenses")[0]["snippet"], "Send the receipts.");
}

#[test]
fn documents_are_found_in_any_state_of_a_merge() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    // More words than one step merges, and documents of many rows.
    let text = |n: u32| (0..900).map(|word| format!("w{} ", word * 7 + n)).collect::<String>();
    let ids: Vec<_> = (0..5).map(|n| add(&fixture, base, &format!("d{n}"), &text(n))).collect();
    let mut model: BTreeMap<u32, String> = (0..5).map(|n| (n, format!("d{n}"))).collect();
    let check = |model: &BTreeMap<u32, String>| {
        for n in 0..7 {
            for word in [0, 450, 899] {
                let expected: Vec<_> = model.get(&n).cloned().into_iter().collect();
                let query = format!("w{}", word * 7 + n);
                assert_eq!(found(&fixture, base, &query), expected, "{query}");
            }
        }
    };
    check(&model);
    let mut steps = 0;
    while merge_step(&fixture, base) {
        steps += 1;
        // Meanwhile documents are replaced, deleted and added.
        match steps {
            3 => {
                replace(&fixture, base, ids[0], "d0", &text(5));
                model.remove(&0);
                model.insert(5, "d0".into());
            }
            5 => {
                delete_document(&fixture, base, ids[1]);
                model.remove(&1);
            }
            6 => {
                add(&fixture, base, "d6", &text(6));
                model.insert(6, "d6".into());
            }
            _ => {}
        }
        check(&model);
        fixture.assert_sound();
    }
    assert!(steps > 12, "{steps}");
    fixture.complete_removals();
    fixture.assert_sound();
    assert_eq!(count::<DocumentContent>(&fixture), 4 + 1);
}

fn count<R: crate::store::Record>(fixture: &Fixture) -> usize {
    let read = |view: &View| view.count::<R>(ListSource::TABLE, &(), 1_000_000);
    fixture.store.read_now(fixture.org, read).unwrap()
}

#[test]
fn what_was_deleted_leaves_nothing_behind() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    let ids: Vec<_> =
        (0..3).map(|n| add(&fixture, base, "d", &format!("some words {n}"))).collect();
    // Merged, pending, and gone before it was merged.
    delete_document(&fixture, base, ids[0]);
    merge_all(&fixture, base);
    delete_document(&fixture, base, ids[1]);
    replace(&fixture, base, ids[2], "d", "other words");
    assert_eq!(found(&fixture, base, "some").len(), 0);
    assert_eq!(found(&fixture, base, "words").len(), 1);
    delete_document(&fixture, base, ids[2]);
    merge_all(&fixture, base);
    fixture.complete_removals();
    fixture.assert_sound();
    assert_eq!(count::<DocumentContent>(&fixture), 0);
    assert_eq!(count::<content::DocumentText>(&fixture), 0);
    assert_eq!(count::<terms::DocumentTerms>(&fixture), 0);
    assert_eq!(count::<postings::DocumentPostings>(&fixture), 0);
    assert_eq!(count::<changes::DocumentChange>(&fixture), 0);
    let state = fixture.store.read_now(fixture.org, |view| knowledge_base::state(view, base));
    assert_eq!((state.clone().unwrap().documents, state.unwrap().words), (0, 0));
}

#[test]
fn a_deleted_knowledge_base_takes_everything_along() {
    let fixture = Fixture::new();
    let (base, other) = (make(&fixture), make(&fixture));
    for n in 0..40 {
        add(&fixture, base, "d", &format!("some words {n}"));
    }
    add(&fixture, other, "d", "some words");
    merge_step(&fixture, base);
    let delete = |base| fixture.write_as(&fixture.owner, delete, base, ());
    delete(base).unwrap();
    assert_eq!(delete(base).unwrap_err().kind(), Kind::NotFound);
    fixture.complete_removals();
    fixture.assert_sound();
    assert_eq!(count::<Document>(&fixture), 1);
    assert_eq!(count::<terms::DocumentTerms>(&fixture), 1);
    assert_eq!(count::<postings::DocumentPostings>(&fixture), 0);
    assert_eq!(found(&fixture, other, "words"), ["d"]);
}

#[test]
fn a_job_merges_and_ends_when_nothing_is_left() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    add(&fixture, base, "a", "some words");
    add(&fixture, base, "b", "some more words");
    let jobs = || -> Vec<Job> {
        let read = |view: &View| view.all::<Job>(ListSource::TABLE, &());
        let jobs = fixture.store.read_now(fixture.org, read).unwrap();
        jobs.into_iter().filter(|job| job.kind == changes::MERGE.kind).collect()
    };
    let [job] = jobs().try_into().unwrap();
    let run = |job: Job| {
        let prepare = move |tx: &mut Tx| {
            let prepared = (changes::MERGE.prepare)(tx, &job)?;
            Ok(matches!(prepared, crate::outbox::Prepared::Done))
        };
        fixture.store.write_blocking(fixture.org, prepare).unwrap()
    };
    let steps = (0..10).position(|_| run(job.clone())).unwrap();
    assert!(steps >= 2, "{steps}");
    assert_eq!(count::<changes::DocumentChange>(&fixture), 0);
    add(&fixture, base, "c", "some other words");
    assert_eq!(jobs().len(), 2, "the next change has a job of its own");
    fixture.write_as(&fixture.owner, delete, base, ()).unwrap();
    assert!(run(job), "its knowledge base is gone");
}

#[test]
fn whoever_adds_to_a_long_queue_merges_first() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    let parts: Vec<_> =
        (0..300).map(|n| add_in_parts(&fixture, base, "d", &format!("word{n}")).1).collect();
    assert!(parts[..256].iter().all(|parts| *parts == 1));
    assert_eq!(parts[256], 2);
    let pending = count::<changes::DocumentChange>(&fixture);
    assert!(pending < 256, "{pending}");
    let first = page(&fixture, base, "d", PageRequest { limit: 200, after: None }).unwrap();
    assert_eq!(first.items.len(), 200);
    let rest = page(&fixture, base, "d", PageRequest { limit: 200, after: first.next }).unwrap();
    assert_eq!((rest.items.len(), rest.next), (100, None));
}

#[test]
fn a_large_document_is_written_in_parts_and_an_interrupted_one_swept() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    let large = "日".repeat(307_200);
    let id = add(&fixture, base, "small", "a");
    // 900 KiB of text in one part; its words in another if need be.
    let (made, parts) = add_in_parts(&fixture, base, "large", &large);
    assert_eq!(parts, 1);
    let get = |id| fixture.read(documents::get, (base, id), ());
    assert_eq!(json!(get(made).unwrap())["content"], json!(large));
    assert_eq!(json!(get(id).unwrap())["content"], "a");
    assert_eq!(found(&fixture, base, "日"), ["large"]);

    let words: String = (0..65_000).map(|n| format!("{n:x} ")).collect();
    let prepared = content::Prepared::new("d", words.repeat(5));
    let begun = fixture.store.write_blocking(fixture.org, move |tx| {
        let name = Name::parse("d").unwrap();
        let file = documents::File {
            name: &name,
            media_type: document::MediaType::Text,
            size: 0,
            prepared: &prepared,
            left_out: &[],
            charset: None,
        };
        let outcome = documents::write(tx, Id::NIL, (base, None), &file, &mut Calls::default())?;
        Ok(matches!(outcome, Outcome::Partial(_)))
    });
    assert!(begun.unwrap(), "it takes several parts");
    assert_eq!(count::<DocumentContent>(&fixture), 3);
    fixture.pass_secs(3700);
    let sweep = documents::RESOURCE.sweeps[0].run;
    let settings = crate::outbox::RetentionSettings::default();
    fixture.store.write_blocking(fixture.org, move |tx| sweep(tx, &settings)).unwrap();
    fixture.complete_removals();
    assert_eq!(count::<DocumentContent>(&fixture), 2);
    fixture.assert_sound();
}

#[test]
fn a_search_is_paged_and_refuses_foreign_positions_and_too_many_words() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    for n in 0..23 {
        add(&fixture, base, &format!("d{n}"), &"word ".repeat(n % 5 + 1));
        if n == 11 {
            merge_all(&fixture, base);
        }
    }
    let all = found(&fixture, base, "word");
    assert_eq!(all.len(), 23);
    let names = walk(&fixture, base, ("word", 7, 200_000), |_| {});
    assert_eq!(names, all);
    let foreign = PageRequest { limit: 7, after: Some(vec![1, 2, 3]) };
    assert_eq!(page(&fixture, base, "word", foreign).unwrap_err().kind(), Kind::Invalid);
    let many: String = (0..33).map(|n| format!("w{n} ")).collect();
    let refused = Fixture::input::<DocumentSearch>(json!({"q": many})).err().unwrap();
    assert_eq!(refused.issues()[0].path, "q");
}

#[test]
fn what_stays_is_listed_once_in_one_order_whatever_happens_between_two_pages() {
    for is_merged in [false, true] {
        let fixture = Fixture::new();
        let base = make(&fixture);
        // Of different lengths and frequencies: each change of the statistics changes the ranks.
        let text = |n: usize| {
            let few = if n.is_multiple_of(3) { "rare " } else { "" };
            format!("{few}{}{}", "common ".repeat(n % 7 + 1), "filler ".repeat(n % 11 * 9))
        };
        let mut ids: BTreeMap<String, Id<Document>> = BTreeMap::new();
        for n in 0..60 {
            ids.insert(format!("d{n}"), add(&fixture, base, &format!("d{n}"), &text(n)));
        }
        if is_merged {
            merge_all(&fixture, base);
        }
        let query = ("common rare filler", 4, 200_000);
        let before = found(&fixture, base, query.0);
        assert_eq!(before.len(), 60);
        let mut gone = Vec::new();
        let mut rounds = 0;
        let names = walk(&fixture, base, query, |listed| {
            rounds += 1;
            for n in 0..5 {
                add(&fixture, base, "new", &format!("{} rare rare", text(rounds + n)));
            }
            // The last one of the list, and the first one, which was listed.
            let rest: Vec<_> = before.iter().filter(|name| !listed.contains(name)).collect();
            let last = rest.iter().rfind(|name| !gone.contains(**name));
            for name in last.copied().into_iter().chain(&listed[rounds - 1..rounds]) {
                delete_document(&fixture, base, ids[name]);
                gone.push(name.clone());
            }
            for _ in 0..rounds % 4 {
                merge_step(&fixture, base);
            }
        });
        assert!(rounds > 8, "{rounds}");
        let deleted_unseen = |name: &&String| gone.contains(*name) && !names.contains(*name);
        let expected: Vec<_> = before.iter().filter(|name| !deleted_unseen(name)).collect();
        assert_eq!(names.iter().collect::<Vec<_>>(), expected, "merged before: {is_merged}");
    }
}

#[test]
fn a_search_of_many_postings_finds_the_newest_on_all_pages_alike() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    for n in 0..1_300 {
        let name = if n % 400 == 7 { "rare" } else { "d" };
        add(&fixture, base, &format!("{name}{n}"), "common");
    }
    merge_all(&fixture, base);
    // Two chunks of the common word, of which three have the 1,300.
    let query = ("common rare7 rare1207", 200, 600);
    let names = walk(&fixture, base, query, |_| {});
    assert_eq!(names[..2], ["rare1207", "rare7"]);
    assert!((780..1_100).contains(&names.len()), "{}", names.len());
    let mut n = 1_300;
    let again = walk(&fixture, base, query, |_| {
        for _ in 0..100 {
            add(&fixture, base, &format!("d{n}"), "common");
            n += 1;
        }
        while merge_step(&fixture, base) {}
    });
    assert_eq!(again, names);
    let newest = walk(&fixture, base, ("common rare7", 200, 600), |_| {});
    let last = format!("d{}", n - 1);
    assert!(newest.contains(&last), "{last} is not in {newest:?}");
    assert!(!newest.contains(&"d100".to_string()), "{newest:?}");
}
