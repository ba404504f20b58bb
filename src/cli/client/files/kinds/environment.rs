//! Environments, whose approvers are e-mail addresses.

use serde_json::{Value, json};

use crate::base::Slug;
use crate::cli::client::files::kind::Absent::{Kept, Null};
use crate::cli::client::files::kind::{Fields, Kind, Known};
use crate::cli::failure::Failure;

/// An environment, without its secrets.
pub static ENVIRONMENT: Kind = Kind {
    order: 4,
    name: "environment",
    folder: "environments",
    key: "slug",
    check_name: |name| Slug::parse(name).map(drop),
    fields: &[
        ("name", Kept),
        ("description", Null),
        ("access", Kept),
        ("approvals", Null),
        ("approvalTimeoutHours", Kept),
    ],
    plan,
    missing,
    path: "/environments",
    apply,
    remote,
    ..Kind::PLAIN
};

fn plan(_: &Known, fields: &mut Fields) {
    let Some(Value::Object(approvals)) = fields.get_mut("approvals") else { return };
    let emails = approvals.get_mut("approvers").and_then(Value::as_array_mut);
    let count = emails.map_or(0, |emails| {
        emails.sort_by_key(ToString::to_string);
        emails.len()
    });
    approvals.entry("minApprovals").or_insert(count.into());
    approvals.entry("preventSelfApproval").or_insert(false.into());
}

fn missing(known: &Known, fields: &Fields) -> Vec<String> {
    let approvers = fields.get("approvals").and_then(|approvals| approvals.get("approvers"));
    let emails = approvers.and_then(Value::as_array).into_iter().flatten();
    let unknown =
        emails.filter_map(Value::as_str).filter(|email| !known.members.contains_key(*email));
    unknown.map(|email| format!("{email} is no member of the organization")).collect()
}

fn apply(known: &Known, fields: &Fields) -> Result<Value, Failure> {
    let mut body = json!(fields);
    if let Some(approvals) = body.get_mut("approvals").and_then(Value::as_object_mut) {
        let emails = approvals.remove("approvers").unwrap_or_default();
        let emails = emails.as_array().into_iter().flatten();
        let ids = emails.map(|email| json!(email.as_str().and_then(|it| known.members.get(it))));
        approvals.insert("approverIds".into(), ids.collect());
    }
    Ok(body)
}

fn remote(known: &Known, environment: &mut Value) {
    let Some(approvals) = environment["approvals"].as_object_mut() else { return };
    let ids = approvals.remove("approverIds").unwrap_or_default();
    let email = |id: &Value| {
        let member = known.members.iter().find(|(_, known)| **known == *id);
        member.map(|(email, _)| email.clone())
    };
    let mut emails: Vec<String> = ids.as_array().into_iter().flatten().filter_map(email).collect();
    emails.sort();
    approvals.insert("approvers".into(), emails.into());
}
