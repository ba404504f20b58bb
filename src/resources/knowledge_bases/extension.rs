//! Extension of documents that were indexed by an earlier version, or before their knowledge base had
//! its language: they get the terms that are found in their text now, and keep those that they have but
//! for the stems of another language (reference: upgrading, and knowledge-bases, "Languages").
//!
//! A sweep finds the knowledge bases and enqueues a job for each. It takes a few documents at a time:
//! it reads their texts, finds their words outside of a transaction, and adds what is missing to the
//! words of each content and, as a change, to the index. The merge of the change takes the stems of
//! other languages out of the index, and then out of the content. Nothing is copied, and contents keep
//! their numbers, so that pages of a search stay in their order.

use std::ops::ControlFlow;

use super::changes::{self, ChangeKind};
use super::content::{self, PART_BYTES};
use super::document::{Document, DocumentContent};
use super::knowledge_base::{FORM, IndexForm, KnowledgeBase, Ordinal, state};
use super::language::Language;
use super::terms::DocumentTerms;
use super::words::{DocumentWords, Term};
use crate::api::{Metric, Resource};
use crate::base::metrics::FamilyKind;
use crate::base::{Error, Id, Kind, Result};
use crate::outbox::{
    Effect, EffectResult, Job, JobHandler, Prepared, RetentionSettings, Settled, Sweep,
    SweepProgress, WriteRows, cancel, enqueue, pending_job,
};
use crate::store::{ListSource, Order, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { jobs: &[EXTEND], sweeps: &[ENQUEUE], metrics: &[EARLIER], ..Resource::EMPTY };

/// A step reads texts of 512 KiB, or one that is longer, of at most 32 documents: their words are
/// found in a tenth of a second, and their stems in half of one.
const STEP_BYTES: usize = 512 * 1024;
const STEP_DOCUMENTS: usize = 32;

/// It looks at no more contents than this, also if none has a text to read.
const STEP_CONTENTS: usize = 500;

/// While so many changes of an index are pending it waits for their merge.
const MAX_PENDING: u64 = 128;
const WAIT_MILLIS: i64 = 1_000;

// ── Finding what is to be done ───────────────────────────────────────────────

const ENQUEUE: Sweep = Sweep {
    name: "extend the index of earlier documents",
    every_secs: 600,
    run: enqueue_due,
    installation: false,
};

fn enqueue_due(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    tx.unmark_deletion();
    let mut bases: Vec<Id<KnowledgeBase>> = Vec::new();
    let (first, end) = (Id::<KnowledgeBase>::NIL, Id::<KnowledgeBase>::new(uuid::Uuid::max()));
    tx.view().record_keys::<KnowledgeBase>(&first, &end, Order::Ascending, |base| {
        bases.push(base);
        Ok(ControlFlow::Continue(()))
    })?;
    for base in bases {
        let base: KnowledgeBase = tx.fetch(&base)?;
        enqueue_for(tx, &base)?;
        changes::begin_again(tx, base.id)?;
    }
    Ok(SweepProgress::Clean)
}

/// Enqueues the job of a knowledge base that needs one and has none.
pub fn enqueue_for(tx: &mut Tx, of: &KnowledgeBase) -> Result<()> {
    let (base, language) = (of.id, of.language);
    let old: Option<IndexForm> = tx.get(&base)?;
    let mut new = match &old {
        Some(form) if form.form >= FORM && form.language == language => form.clone(),
        old => IndexForm {
            knowledge_base: base,
            form: FORM,
            next: 0,
            until: state(&tx.view(), base)?.next_ordinal,
            after: String::new(),
            job: old.as_ref().and_then(|form| form.job),
            language,
        },
    };
    if let Some(old) = &old
        && !old.after.is_empty()
        && new.after.is_empty()
        && let Some((content, _)) = current(&tx.view(), base, old.next)?
    {
        // It has terms of the language before that the index has not.
        changes::add(tx, &content, ChangeKind::Extended)?;
    }
    if let Some(job) = new.job
        && pending_job(&tx.view(), &job)?.is_none()
    {
        cancel(tx, job)?;
        new.job = None;
    }
    if new.next < new.until && new.job.is_none() {
        // One key for all: they must not take the processor from everyone else.
        new.job = Some(enqueue(tx, &EXTEND, base.cast(), Some(KEY), tx.now())?);
    }
    match &old {
        Some(old) if *old == new => Ok(()),
        Some(old) => tx.replace(old, &new),
        None => tx.insert(&new),
    }
}

/// The concurrency key of the jobs.
const KEY: Id<crate::outbox::Target> =
    Id::new(uuid::Uuid::from_u128(0x0b0a_2026_0000_7000_8000_0000_0000_0e01));

/// How far it is, for who has upgraded.
const EARLIER: Metric = Metric {
    name: "roadstead_documents_to_extend",
    kind: FamilyKind::Gauge,
    help: "Documents of an earlier version, or from before their knowledge base had its language, \
           whose words may not be found in all forms yet",
    read: |view| {
        let bases: Vec<KnowledgeBase> = view.all(ListSource::TABLE, &())?;
        bases.iter().map(|base| to_extend(view, base.id)).sum()
    },
    installation: false,
};

fn to_extend(view: &View, base: Id<KnowledgeBase>) -> Result<u64> {
    let documents = state(view, base)?.documents;
    let form: Option<IndexForm> = view.get(&base)?;
    let left =
        form.filter(|form| form.form >= FORM).map(|form| form.until - form.next.min(form.until));
    Ok(left.map_or(documents, |left| documents.min(left.into())))
}

// ── The job ──────────────────────────────────────────────────────────────────

/// The job that extends the contents of a knowledge base.
const EXTEND: JobHandler = JobHandler { kind: "knowledge_base.extend_index", prepare, settle };

/// Texts of which the words are to be found.
struct Batch {
    base: Id<KnowledgeBase>,
    /// Where the knowledge base was when they were read.
    from: (Ordinal, String),
    language: Option<Language>,
    texts: Vec<(Ordinal, String, String)>,
    /// Contents with smaller ordinals are in the batch, or need not be.
    end: Ordinal,
}

/// The terms of each content of a batch.
struct Found {
    base: Id<KnowledgeBase>,
    from: (Ordinal, String),
    language: Option<Language>,
    terms: Vec<(Ordinal, Vec<(String, Term)>)>,
    end: Ordinal,
}

fn prepare(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let base: Id<KnowledgeBase> = job.target.cast();
    let form: Option<IndexForm> = tx.get(&base)?;
    let due = form.filter(|form| form.next < form.until && form.job == Some(job.id));
    let Some(form) = due else { return Ok(Prepared::Done) };
    if changes::pending(&tx.view(), base)? >= MAX_PENDING {
        return Ok(Prepared::RetryAt(tx.now().plus_millis(WAIT_MILLIS)));
    }
    let batch = read_batch(&tx.view(), form)?;
    Ok(Prepared::Effect(Effect::Work(Box::new(move || batch.into_rows()))))
}

/// The next step follows at once. One that fails, such as on a full disk, is tried again with back-off,
/// and the sweep enqueues the job again if it was given up.
fn settle(tx: &mut Tx, _: &Job, _: &EffectResult) -> Result<Settled> {
    Ok(Settled::RetryAt(tx.now()))
}

fn read_batch(view: &View, form: IndexForm) -> Result<Batch> {
    let IndexForm { knowledge_base: base, next, until, after, language, .. } = form;
    let mut ordinals = Vec::new();
    view.record_keys::<DocumentContent>(
        &(base, next),
        &(base, until),
        Order::Ascending,
        |(_, ordinal)| {
            ordinals.push(ordinal);
            let is_enough = ordinals.len() == STEP_CONTENTS;
            Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        },
    )?;
    let last = ordinals.last().filter(|_| ordinals.len() == STEP_CONTENTS);
    let mut end = last.map_or(until, |last| last + 1);
    let (mut texts, mut bytes) = (Vec::new(), 0);
    for ordinal in ordinals {
        if bytes >= STEP_BYTES || texts.len() == STEP_DOCUMENTS {
            end = ordinal;
            break;
        }
        match read_text(view, base, ordinal) {
            Ok(None) => {}
            Ok(Some((name, text))) => {
                bytes += text.len();
                texts.push((ordinal, name, text));
            }
            Err(error) => skip(base, ordinal, error)?,
        }
    }
    Ok(Batch { base, from: (next, after), language, texts, end })
}

/// A content that cannot be read does not stop the others. It is found by the words that it has.
///
/// # Errors
/// The same one, if it is not about the content: the step is tried again.
fn skip(base: Id<KnowledgeBase>, ordinal: Ordinal, error: Error) -> Result<()> {
    if error.kind() != Kind::Internal {
        return Err(error);
    }
    tracing::error!(%error, %base, ordinal, "a document cannot be indexed again and is left as it is");
    Ok(())
}

/// Returns the content with this number, if it is one that a document has now.
fn current(
    view: &View,
    base: Id<KnowledgeBase>,
    ordinal: Ordinal,
) -> Result<Option<(DocumentContent, Document)>> {
    let content: Option<DocumentContent> = view.get(&(base, ordinal))?;
    let Some(content) = content.filter(|content| content.is_complete) else { return Ok(None) };
    let document: Option<Document> = view.get(&(base, content.document))?;
    let document = document.filter(|document| document.ordinal == ordinal);
    Ok(document.map(|document| (content, document)))
}

fn read_text(
    view: &View,
    base: Id<KnowledgeBase>,
    ordinal: Ordinal,
) -> Result<Option<(String, String)>> {
    let Some((_, document)) = current(view, base, ordinal)? else { return Ok(None) };
    let text = content::text(view, (base, ordinal))?;
    DocumentTerms::verify(view, (base, ordinal))?;
    Ok(Some((document.name.into_string(), text)))
}

impl Batch {
    /// Finds the words, and returns what writes them.
    fn into_rows(self) -> WriteRows {
        let Batch { base, from, language, texts, end } = self;
        let words = texts.into_iter().map(|(ordinal, name, text)| {
            let words = DocumentWords::of(&name, &text);
            let DocumentWords { terms, .. } = match language {
                Some(language) => words.with_stems(language),
                None => words,
            };
            (ordinal, terms)
        });
        let found = Found { base, from, language, terms: words.collect(), end };
        Box::new(move |tx| found.write(tx))
    }
}

impl Found {
    /// Writes as many of the terms as one transaction should.
    fn write(&self, tx: &mut Tx) -> Result<()> {
        let Some(old) = tx.get::<IndexForm>(&self.base)? else { return Ok(()) };
        if (old.next, &old.after, old.language) != (self.from.0, &self.from.1, self.language) {
            return Ok(()); // Another attempt was faster, or the language is another one.
        }
        let (next, after) = self.extend(tx)?;
        tx.replace(&old, &IndexForm { next, after, ..old.clone() })
    }

    /// Returns up to which content, and up to which of its terms, they are written then.
    fn extend(&self, tx: &mut Tx) -> Result<(Ordinal, String)> {
        let mut room = PART_BYTES;
        for (ordinal, terms) in &self.terms {
            if room == 0 {
                return Ok((*ordinal, String::new()));
            }
            let Some((content, _)) = current(&tx.view(), self.base, *ordinal)? else { continue };
            let after = if *ordinal == self.from.0 { self.from.1.as_str() } else { "" };
            let place = (self.base, *ordinal);
            // All rows were read before: what fails now is not about this content.
            let extended = DocumentTerms::extend(tx, place, terms, after, &mut room)?;
            if let Some(after) = extended.rest_after {
                return Ok((*ordinal, after));
            }
            let has_others = || DocumentTerms::has_other_stems(&tx.view(), place, self.language);
            if extended.is_changed || !after.is_empty() || has_others()? {
                changes::add(tx, &content, ChangeKind::Extended)?;
            }
        }
        Ok((self.end, String::new()))
    }
}
