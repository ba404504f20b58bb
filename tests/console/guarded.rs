//! Walks all pages: a form that changes something says what it was made from, and is not saved over
//! what somebody else has changed since.

use std::collections::BTreeSet;

use crate::crawl;
use crate::html::Form;
use crate::server::Running;

/// Forms in which something is entered, but that change nothing that is shown in them, or that know in
/// another way what they were made from: a part of their path, one of their fields, and why.
const OTHERS: &[(&str, &str, &str)] = &[
    ("/account/password", "newPassword", "It is not shown, and has the present one."),
    ("/account/second-factor", "password", "It is not shown, and has the present one."),
    ("/device", "userCode", "It shows what waits; each is let in or refused once."),
    ("/environments/", "secretName", "What it replaces is not shown."),
    ("/environments/", "credential", "Its key is not shown."),
    ("/governance/check", "text", "Nothing is stored."),
    ("/try", "message", "Nothing is stored."),
    ("/compare-inputs", "left", "Nothing is stored."),
    ("/channels/", "eventType", "It adds what is not there."),
    ("/channels/", "status", "It delivers again."),
    ("/labels", "label", "It has where the label was, as `from`."),
    ("/tags", "tags", "It has the tags that there were, as `from`."),
    ("/prompts/main", "label", "A label that is protected already stays as it is."),
    ("/label-changes/", "comment", "There is one decision: another one is refused."),
    ("/approvals", "comment", "There is one decision: another one is refused."),
    ("/board", "to-1", "A card is moved to where somebody wants it, and everybody sees it move."),
    ("/inbox/", "body", "It sends an answer."),
    ("/peers/", "body", "It sends a message."),
    ("/peers/", "reason", "There is one decision: another one is refused."),
    ("/peers/rules", "domain", "It shows no rule, and says that it replaces one."),
    ("/tasks/many", "status", "They are moved to where somebody wants them, as cards are."),
    ("/tasks/", "body", "It adds a note."),
    ("/timeline", "title", "It adds an entry."),
    ("/versions", "message", "It makes another version."),
    ("/agents/", "reason", "What is paused already stays as it is."),
    ("/teams", "reason", "What is paused already stays as it is."),
    ("/keys/", "overlapSecs", "It makes a key; another one has been rotated and is refused."),
];

/// Fields whose value can be another one, and what is added to it.
const TEXTS: &[(&str, &str)] = &[
    ("name", "more"),
    ("title", "more"),
    ("displayName", "more"),
    ("wakeUrl", "https://more.test/"),
    ("variableValue", "more"),
    ("skills", "more"),
    ("content", "more"),
    ("labels", "more"),
    ("judge", "more"),
    ("inputUsd", "1"),
];

/// Forms that say what they were made from, and are not tried here: their path, their first field, and why.
const UNTRIED: &[(&str, &str, &str)] = &[
    ("/o/acme/environments/{id}", "variable", "It is for one that does not exist yet."),
    ("/o/acme/prompts/main/notes/edit", "source", "Drafts are tried in conflicts.rs."),
    ("/o/acme/prompts/main/notes/try", "source", "Nothing is stored."),
    ("/o/acme/prompts/main/told/edit", "source", "Drafts are tried in conflicts.rs."),
    ("/o/acme/prompts/main/told/try", "source", "Nothing is stored."),
    ("/o/acme/promptlets/main/tone/edit", "source", "Drafts are tried in conflicts.rs."),
    ("/o/acme/registries/main/labels/gated", "minRole", "Its fields depend on each other."),
];

/// A digest of nothing.
const ANOTHER: &str = "0123456789abcdef";

/// Whether a form creates what it is filled with, by the page that it is on.
fn creates(action: &str) -> bool {
    let mut segments = action.rsplit('/');
    let last = segments.next().unwrap_or_default();
    let is_new = last == "new" || last.starts_with("new-") || segments.next() == Some("new");
    is_new || ["invite", "upload", "add", "clone", "deploy"].contains(&last)
}

fn other(form: &Form) -> Option<usize> {
    let path = form.action.split('?').next().unwrap_or_default();
    let has = |name: &str| form.entered.iter().any(|field| field == name);
    OTHERS.iter().position(|(part, name, _)| path.contains(part) && has(name))
}

/// Whether all that is entered in a form is chosen, or empty.
fn is_of_choices(form: &Form) -> bool {
    let is_chosen = |name: &str| form.choices.iter().any(|(choice, _)| choice == name);
    let mut entered = form.fields.iter().filter(|(name, _)| form.entered.contains(name));
    entered.all(|(name, value)| value.is_empty() || is_chosen(name))
}

/// The fields of a form with another text in one that can have it, or another choice in one that is made of
/// choices, and another digest; `None` if it is neither, or is filled for what does not exist yet.
fn changed(form: &Form) -> Option<Vec<(&str, String)>> {
    let fields = form.fields.iter().filter(|(name, _)| name != "approver");
    let mut fields: Vec<_> = fields.map(|(name, value)| (&**name, value.clone())).collect();
    let more = |name: &str| TEXTS.iter().find(|(text, _)| *text == name);
    let text = fields.iter_mut().find_map(|field| Some((more(field.0)?.1, &mut field.1)));
    if let Some((more, text)) = text {
        text.push_str(more);
    } else if is_of_choices(form) {
        let (chosen, another) = fields.iter_mut().find_map(|field| {
            let (_, values) = form.choices.iter().find(|(name, _)| name == field.0)?;
            let another = values.iter().find(|value| **value != field.1)?.clone();
            Some((field, another))
        })?;
        chosen.1 = another;
    } else {
        return None;
    }
    if fields.contains(&("variable", String::new())) {
        return None;
    }
    fields.extend(form.buttons.first().map(|(name, value)| (&**name, value.clone())));
    let was = fields.iter_mut().find(|(name, _)| *name == "was")?;
    was.1 = ANOTHER.into();
    Some(fields)
}

#[test]
fn a_form_that_changes_something_is_not_saved_over_what_it_was_not_made_from() {
    let server = Running::new();
    server.add("ben", "member");
    crawl::fill(&server);
    crawl::fill_teams(&server);
    let ada = server.signed_in("ada@acme.test");
    let (mut known, mut refused, mut untried) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (mut unguarded, mut saved) = (Vec::new(), Vec::new());
    for (path, page) in crawl::crawl(&ada) {
        let forms = page.forms().into_iter().filter(|form| form.is_post);
        for form in forms.filter(|form| !form.entered.is_empty() && !creates(&form.action)) {
            if form.fields.iter().any(|(name, value)| name == "was" && !value.is_empty()) {
                let Some(fields) = changed(&form) else {
                    untried.insert((crawl::template(&form.action), form.entered[0].clone()));
                    continue;
                };
                let fields: Vec<_> = fields.iter().map(|(name, text)| (*name, &**text)).collect();
                let reply = ada.send_form(&form, &fields);
                if reply.status == 412 {
                    refused.insert((form.action, form.entered));
                } else {
                    saved.push((path.clone(), form.entered, reply.status));
                }
            } else if let Some(at) = other(&form) {
                known.insert(at);
            } else {
                unguarded.push((form.action, form.entered));
            }
        }
    }
    assert!(saved.is_empty(), "these are not refused: {saved:#?}");
    assert!(unguarded.is_empty(), "these do not say what they were made from: {unguarded:#?}");
    let unused: Vec<_> = (0..OTHERS.len()).filter(|at| !known.contains(at)).collect();
    assert!(unused.is_empty(), "no page has these: {unused:?}");
    let listed = UNTRIED.iter().map(|(path, field, _)| (path.to_string(), field.to_string()));
    assert_eq!(untried, listed.collect());
    assert_eq!(refused.len(), 34, "{refused:#?}");
}
