//! Documents that version 0.1 has indexed: found as before, then in the new forms, and removed without
//! a rest at any time between.

use crate::base::{Importing, Portable as _};
use crate::outbox::{Effect, Prepared, RetentionSettings, Settled, SweepProgress};

use super::super::knowledge_base::IndexForm;
use super::super::segmentation::former;
use super::super::terms::DocumentTerms;
use super::super::words::{DocumentWords, Term, earlier_form, folded};
use super::super::{content, extension};
use super::*;

/// The words of a text as version 0.1 found them.
fn earlier_words(text: &str) -> DocumentWords {
    let is_cut =
        |c: char| !c.is_alphanumeric() && !unicode_normalization::char::is_combining_mark(c);
    let mut terms = BTreeMap::new();
    let words = text.split(is_cut).filter(|word| !word.is_empty());
    for word in words.clone() {
        // Ideographs stood alone.
        let is_ideograph = |c: char| ('\u{4e00}'..'\u{a000}').contains(&c);
        for part in word.split_inclusive(is_ideograph) {
            let at = (part.as_ptr() as usize - text.as_ptr() as usize) as u32;
            let term = Term { frequency: 1, first_at: Some(at) };
            terms.entry(earlier_form(part)).or_insert(term);
        }
    }
    DocumentWords { terms: terms.into_iter().collect(), count: words.count() as u32 }
}

/// Adds a document as version 0.1 did.
fn add_earlier(fixture: &Fixture, base: Id<KnowledgeBase>, text: &str) -> Id<Document> {
    let prepared = content::Prepared::of(text.into(), earlier_words(text));
    run(fixture, write_prepared, args(base, prepared)).unwrap().0.id
}

/// A knowledge base as version 0.1 has left it.
fn earlier(fixture: &Fixture) -> Id<KnowledgeBase> {
    let base = make(fixture);
    let forget = move |tx: &mut Tx| {
        let form: IndexForm = tx.fetch(&base)?;
        tx.remove(&form)
    };
    fixture.store.write_blocking(fixture.org, forget).unwrap();
    base
}

pub fn form(fixture: &Fixture, base: Id<KnowledgeBase>) -> Option<IndexForm> {
    fixture.store.read_now(fixture.org, |view| view.get(&base)).unwrap()
}

pub fn sweep(fixture: &Fixture) {
    let run = extension::RESOURCE.sweeps[0].run;
    let settings = RetentionSettings::default();
    let step = move |tx: &mut Tx| run(tx, &settings);
    let progress = fixture.store.write_blocking(fixture.org, step).unwrap();
    assert_eq!(progress, SweepProgress::Clean);
}

fn job_of(fixture: &Fixture, base: Id<KnowledgeBase>) -> Job {
    let job = form(fixture, base).unwrap().job.expect("it has a job");
    fixture.store.read_now(fixture.org, |view| view.fetch::<Job>(&job)).unwrap()
}

/// Does a step of the job; returns whether there was something to do.
pub fn extend_step(fixture: &Fixture, base: Id<KnowledgeBase>) -> bool {
    let job = job_of(fixture, base);
    let handler = &extension::RESOURCE.jobs[0];
    let prepared = std::sync::Arc::new(std::sync::Mutex::new(None));
    let (out, own) = (prepared.clone(), job.clone());
    let prepare = move |tx: &mut Tx| {
        *out.lock().unwrap() = Some((handler.prepare)(tx, &own)?);
        Ok(())
    };
    fixture.store.write_blocking(fixture.org, prepare).unwrap();
    let prepared = prepared.lock().unwrap().take().unwrap();
    match prepared {
        Prepared::Done => false,
        Prepared::RetryAt(_) => {
            assert!(merge_step(fixture, base), "it waits for a merge");
            true
        }
        Prepared::Effect(Effect::Work(work)) => {
            let write = work();
            let step = move |tx: &mut Tx| {
                write(tx)?;
                (handler.settle)(tx, &job, &crate::outbox::EffectResult::Done)
            };
            let settled = fixture.store.write_blocking(fixture.org, step).unwrap();
            assert!(matches!(settled, Settled::RetryAt(_)));
            true
        }
        _ => panic!("it is work"),
    }
}

#[test]
fn documents_of_an_earlier_version_are_found_as_before_and_then_in_the_new_forms() {
    let fixture = Fixture::new();
    let base = earlier(&fixture);
    let texts = ["Die Straße, ΟΔΥΣΣΕΥΣ", "a café of the depart\u{ad}ment", "日本語", "plain words"];
    for text in texts {
        add_earlier(&fixture, base, text);
    }
    merge_all(&fixture, base);
    let count = |q: &str| found(&fixture, base, q).len();
    let as_before = [
        "depart\u{ad}ment",
        "straße",
        "STRAßE",
        "οδυσσευς",
        "café",
        "CAFÉ",
        "日",
        "語 本",
        "plain",
        "\"die straße\"",
    ];
    let new = ["strasse", "cafe", "department", "\"cafe\" x"];
    for q in as_before {
        assert_eq!(count(q), 1, "{q}");
    }
    assert_eq!(new.map(count), [0; 4]);
    sweep(&fixture);
    let mut steps = 0;
    while extend_step(&fixture, base) || merge_step(&fixture, base) {
        steps += 1;
        for q in as_before {
            assert_eq!(count(q), 1, "{q}");
        }
        fixture.assert_sound();
    }
    assert!(steps > 2);
    assert_eq!(new.map(count), [1, 1, 1, 0]);
    let IndexForm { next, until, after, .. } = form(&fixture, base).unwrap();
    assert_eq!((next, after.as_str()), (until, ""));
    // Nothing is left to do, and nothing is written again.
    let before = form(&fixture, base);
    sweep(&fixture);
    assert_eq!(form(&fixture, base), before);
}

/// A knowledge base of form 3 with documents of these texts.
fn of_third_form(fixture: &Fixture, texts: &[&str]) -> Id<KnowledgeBase> {
    let base = make(fixture);
    let begin = move |tx: &mut Tx| {
        let form: IndexForm = tx.fetch(&base)?;
        tx.replace(&form, &IndexForm { form: 3, ..form.clone() })
    };
    fixture.store.write_blocking(fixture.org, begin).unwrap();
    for text in texts {
        let mut terms = BTreeMap::new();
        for (at, word) in former(text) {
            let term = Term { frequency: 1, first_at: Some(at as u32) };
            terms.entry(folded(word).into_owned()).or_insert(term);
        }
        let words = DocumentWords { count: terms.len() as u32, terms: terms.into_iter().collect() };
        let prepared = content::Prepared::of((*text).into(), words);
        run(fixture, write_prepared, args(base, prepared)).unwrap();
    }
    base
}

#[test]
fn documents_of_the_third_form_are_found_as_before_and_then_with_their_signs_read() {
    let fixture = Fixture::new();
    let texts =
        ["much CO₂ emission", "of zero\u{200b}width, ⑴", "Road™ and hippo-\n\u{c}potamus", "5 ㎏"];
    let base = of_third_form(&fixture, &texts);
    merge_all(&fixture, base);
    let count = |q: &str| found(&fixture, base, q).len();
    let as_before = [
        "CO₂",
        "\"CO₂\"",
        "\"much CO₂ emission\"",
        "co",
        "\"co 2\"",
        "zero\u{200b}width",
        "\"of zero width\"",
        "width",
        "⑴",
        "Road™",
        "\"road and\"",
        "potamus",
        "5",
    ];
    let new = ["CO2", "\"CO2 emission\"", "zerowidth", "roadtm", "hippopotamus", "kg", "㎏"];
    for q in as_before {
        assert_eq!(count(q), 1, "{q}");
    }
    assert_eq!(new.map(count), [0; 7]);
    sweep(&fixture);
    let mut steps = 0;
    while extend_step(&fixture, base) || merge_step(&fixture, base) {
        steps += 1;
        for q in as_before {
            assert_eq!(count(q), 1, "{q}");
        }
        fixture.assert_sound();
    }
    assert!(steps > 2);
    assert_eq!(new.map(count), [1; 7]);
    let before = form(&fixture, base);
    sweep(&fixture);
    assert_eq!(form(&fixture, base), before, "nothing is left to do");
}

#[test]
fn documents_may_be_replaced_and_deleted_while_they_are_extended() {
    let fixture = Fixture::new();
    let base = earlier(&fixture);
    // Terms of more than one part each.
    let word = |first: &str, m: usize| format!("{first}{}{m:05}", "ж".repeat(33));
    let text =
        |first: &str, count| -> String { (0..count).map(|m| word(first, m) + " ").collect() };
    let ids = [("ё", 15_000), ("й", 15_000), ("ї", 10)]
        .map(|(first, count)| add_earlier(&fixture, base, &text(first, count)));
    merge_all(&fixture, base);
    sweep(&fixture);
    assert!(extend_step(&fixture, base));
    assert!(!form(&fixture, base).unwrap().after.is_empty(), "it is in the middle of a document");
    fixture.assert_sound();
    delete_document(&fixture, base, ids[0]);
    fixture.assert_sound();
    assert_eq!(found(&fixture, base, &word("е", 3)).len(), 0);
    for _ in 0..2 {
        extend_step(&fixture, base);
    }
    replace(&fixture, base, ids[1], "d", "something else");
    while extend_step(&fixture, base) || merge_step(&fixture, base) {}
    fixture.assert_sound();
    assert_eq!(found(&fixture, base, &word("и", 3)).len(), 0);
    assert_eq!(found(&fixture, base, &word("і", 9)).len(), 1);
    for id in &ids[1..] {
        delete_document(&fixture, base, *id);
    }
    merge_all(&fixture, base);
    fixture.complete_removals();
    fixture.assert_sound();
    assert_eq!(count::<DocumentTerms>(&fixture), 0);
    assert_eq!(count::<postings::DocumentPostings>(&fixture), 0);
    assert_eq!(count::<DocumentContent>(&fixture), 0);
}

#[test]
fn a_document_that_cannot_be_read_does_not_stop_the_others() {
    let fixture = Fixture::new();
    let base = earlier(&fixture);
    for text in ["Straße 1", "Straße 2", "Straße 3"] {
        add_earlier(&fixture, base, text);
    }
    merge_all(&fixture, base);
    let damage = move |tx: &mut Tx| {
        let row = DocumentTerms::up_to(&tx.view(), (base, 2), "zz")?.unwrap();
        let mut json = row.to_json(&mut Default::default());
        json["entries"] = vec![255_u8, 255, 255].to_json(&mut Default::default());
        let damaged = DocumentTerms::from_json(json, &Importing::default()).unwrap();
        tx.replace(&row, &damaged)
    };
    fixture.store.write_blocking(fixture.org, damage).unwrap();
    sweep(&fixture);
    while extend_step(&fixture, base) || merge_step(&fixture, base) {}
    let IndexForm { next, until, .. } = form(&fixture, base).unwrap();
    assert_eq!(next, until);
    let read = fixture.store.read_now(fixture.org, |view| {
        let last = postings::DocumentPostings::last(view, base, "strasse")?.unwrap();
        last.postings()
    });
    let ordinals: Vec<_> = read.unwrap().iter().map(|posting| posting.ordinal).collect();
    assert_eq!(ordinals, [1, 3]);
}

#[test]
fn a_job_that_is_gone_or_given_up_is_enqueued_again_and_goes_on_where_it_was() {
    let fixture = Fixture::new();
    let base = earlier(&fixture);
    for n in 0..70 {
        add_earlier(&fixture, base, &format!("Straße {n}"));
    }
    merge_all(&fixture, base);
    sweep(&fixture);
    assert!(extend_step(&fixture, base));
    let next = form(&fixture, base).unwrap().next;
    assert_eq!(next, 33, "a step is of 32 documents");
    let first = job_of(&fixture, base);
    sweep(&fixture);
    assert_eq!(job_of(&fixture, base).id, first.id, "one that is there stays");
    let own = first.clone();
    let give_up = move |tx: &mut Tx| tx.replace(&own, &Job { dead: true, ..own.clone() });
    fixture.store.write_blocking(fixture.org, give_up).unwrap();
    sweep(&fixture);
    let second = job_of(&fixture, base);
    assert_ne!(second.id, first.id);
    let dead = |view: &View| view.get::<Job>(&first.id);
    assert!(fixture.store.read_now(fixture.org, dead).unwrap().is_none(), "it is replaced");
    let own = second.clone();
    fixture.store.write_blocking(fixture.org, move |tx| tx.remove(&own)).unwrap();
    sweep(&fixture);
    assert_ne!(job_of(&fixture, base).id, second.id);
    assert_eq!(form(&fixture, base).unwrap().next, next);
    while extend_step(&fixture, base) || merge_step(&fixture, base) {}
    let names = walk(&fixture, base, ("strasse", 50, 200_000), |_| {});
    assert_eq!(names.len(), 70);
}

#[test]
fn pages_stay_in_their_order_while_documents_are_extended() {
    let fixture = Fixture::new();
    let base = earlier(&fixture);
    for n in 0..40 {
        add_earlier(&fixture, base, &format!("common é{n}"));
    }
    merge_all(&fixture, base);
    sweep(&fixture);
    let mut seen = 0;
    let names = walk(&fixture, base, ("common", 5, 200_000), |listed| {
        seen = listed.len();
        let _ = extend_step(&fixture, base) || merge_step(&fixture, base);
    });
    assert_eq!((seen, names.len()), (35, 40));
}

#[test]
fn a_merge_that_was_given_up_or_lost_is_begun_again_by_the_sweep() {
    let fixture = Fixture::new();
    let base = make(&fixture);
    add(&fixture, base, "a", "some words");
    let merges = || -> Vec<Job> {
        let read = |view: &View| view.all::<Job>(ListSource::TABLE, &());
        let mut jobs = fixture.store.read_now(fixture.org, read).unwrap();
        jobs.retain(|job| job.kind == changes::MERGE.kind);
        jobs
    };
    let give_up = |tx: &mut Tx, job: &Job| tx.replace(job, &Job { dead: true, ..job.clone() });
    let lose = |tx: &mut Tx, job: &Job| tx.remove(job);
    for end in [give_up as fn(&mut Tx, &Job) -> Result<()>, lose] {
        let [job] = <[Job; 1]>::try_from(merges()).unwrap();
        let own = job.clone();
        fixture.store.write_blocking(fixture.org, move |tx| end(tx, &own)).unwrap();
        sweep(&fixture);
        let [now] = <[Job; 1]>::try_from(merges()).unwrap();
        assert!(!now.dead && now.id != job.id);
        sweep(&fixture);
        assert_eq!(merges().len(), 1);
    }
    let [job] = <[Job; 1]>::try_from(merges()).unwrap();
    let end = move |tx: &mut Tx| {
        while !matches!((changes::MERGE.prepare)(tx, &job)?, Prepared::Done) {}
        tx.remove(&job)
    };
    fixture.store.write_blocking(fixture.org, end).unwrap();
    add(&fixture, base, "b", "some words");
    assert_eq!(merges().len(), 1, "a merge that ended is no more");
}
