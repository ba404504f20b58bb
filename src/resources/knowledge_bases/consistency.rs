//! What must hold between the records of a knowledge base.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::document::{Document, DocumentContent};
use super::knowledge_base::{IndexForm, KnowledgeBase, Ordinal, merge, state};
use super::postings::DocumentPostings;
use super::terms::DocumentTerms;
use crate::base::{Id, Result};
use crate::store::check::Findings;
use crate::store::{ListSource, Order, Record, View};

/// Verifies that each document has its content, and that the index has the words of the contents and
/// no others.
pub fn check(view: &View, findings: &mut Findings) -> Result<()> {
    for base in view.all::<KnowledgeBase>(ListSource::TABLE, &())? {
        check_documents(view, base.id, findings)?;
        check_index(view, base.id, findings)?;
    }
    Ok(())
}

fn each<R: Record>(
    view: &View,
    base: Id<KnowledgeBase>,
    mut each: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    view.for_each(ListSource::TABLE, &base, Order::Ascending, |record| {
        each(record)?;
        Ok(ControlFlow::Continue(()))
    })
}

fn check_documents(view: &View, base: Id<KnowledgeBase>, findings: &mut Findings) -> Result<()> {
    let (mut documents, mut words) = (0, 0);
    each(view, base, |document: Document| {
        documents += 1;
        let content: Option<DocumentContent> = view.get(&(base, document.ordinal))?;
        words += content.as_ref().map_or(0, |content| u64::from(content.words));
        let is_own =
            |content: &DocumentContent| content.is_complete && content.document == document.id;
        if !content.as_ref().is_some_and(is_own) {
            findings.report(format!("documents: {} has no content", document.id));
        }
        Ok(())
    })?;
    let state = state(view, base)?;
    if (state.documents, state.words) != (documents, words) {
        findings.report(format!(
            "knowledge_bases: {base} has {documents} documents of {words} words, and counts {} of {}",
            state.documents, state.words
        ));
    }
    Ok(())
}

fn check_index(view: &View, base: Id<KnowledgeBase>, findings: &mut Findings) -> Result<()> {
    let mut contents = HashSet::new();
    each(view, base, |content: DocumentContent| {
        if content.is_complete {
            contents.insert(content.ordinal);
        }
        Ok(())
    })?;
    let mut indexed = 0_u64;
    each(view, base, |chunk: DocumentPostings| {
        let postings = chunk.postings()?;
        indexed += postings.len() as u64;
        let is_sorted = postings.is_sorted_by(|one, other| one.ordinal < other.ordinal);
        let is_known = postings.iter().all(|posting| contents.contains(&posting.ordinal));
        if !is_sorted || !is_known || postings.is_empty() {
            findings.report(format!("document_postings: {:?} is wrong", chunk.key()));
        }
        Ok(())
    })?;
    // Before that the index has a part of the words.
    let form: Option<IndexForm> = view.get(&base)?;
    let is_extending = form.is_some_and(|form| !form.after.is_empty());
    if !is_extending && merge(view, base)?.first == state(view, base)?.next_change {
        let expected = words_of(view, base, &contents)?;
        if indexed != expected {
            findings.report(format!(
                "document_postings: {base} has {indexed} postings of {expected} words in documents"
            ));
        }
    }
    Ok(())
}

/// Counts the different words of each of these contents, together.
fn words_of(view: &View, base: Id<KnowledgeBase>, contents: &HashSet<Ordinal>) -> Result<u64> {
    let mut count = 0;
    each(view, base, |row: DocumentTerms| {
        if contents.contains(&row.key().1) {
            count += row.entries().count() as u64;
        }
        Ok(())
    })?;
    Ok(count)
}
