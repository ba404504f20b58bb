//! `/o/{org}/settings/sign-in`: whose people join the organization by signing in, and whether they must sign
//! in with a provider.

use serde::Deserialize;
use serde_json::{Value, json};

use super::sign_in::providers;
use crate::auth::Role;
use crate::base::{Error, Result};
use crate::console::conflict::Edited;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::page::Page;
use crate::console::roster::{members, tabs};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/settings/sign-in").form(|visit| Box::pin(form(visit)))];

const PATH: &str = "/organizations/sign-in";

#[derive(Deserialize)]
struct Rule {
    domain: String,
    provider: String,
    role: String,
}

#[derive(Deserialize)]
struct Stored {
    providers: Vec<String>,
    domains: Vec<Rule>,
}

/// The names of the providers that are enough.
fn names(stored: &Value) -> String {
    Stored::deserialize(stored).map(|stored| stored.providers.join(" ")).unwrap_or_default()
}

/// The rules as lines of a text.
fn lines(stored: &Value) -> String {
    let rules = Stored::deserialize(stored).map(|stored| stored.domains).unwrap_or_default();
    let line = |rule: &Rule| format!("{} {} {}", rule.domain, rule.provider, rule.role);
    rules.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The rules of the lines that were sent; what is missing in one is for the API to say.
fn rules(visit: &Visit, _: &Value, body: &mut Value) {
    let lines = visit.form.get("domains").lines().filter(|line| !line.trim().is_empty());
    let rule = |line: &str| {
        let mut words = line.split_whitespace();
        let mut rule = json!({});
        for name in ["domain", "provider", "role"] {
            if let Some(word) = words.next() {
                rule[name] = json!(word);
            }
        }
        rule
    };
    body["domains"] = lines.map(rule).collect();
    if visit.form.some("breakGlassUserId").is_none() {
        body["breakGlassUserId"] = Value::Null;
    }
    body["providers"] = visit.form.get("providers").split_whitespace().collect();
}

async fn form(visit: &Visit) -> Result<FormPage> {
    if visit.member().role != Role::Owner {
        return Err(Error::forbidden(
            "owner_required",
            "only an owner may change how people sign in",
        ));
    }
    let mut owners = vec![(String::new(), "No: a password is enough".into())];
    let all = members(&visit.api).await?.into_iter();
    let all = all.filter(|member| member.role == Role::Owner && !member.is_service());
    owners.extend(all.map(|owner| (owner.user_id, format!("Yes, but for {}", owner.name))));
    let fields = vec![
        Field::select("breakGlassUserId", "Must people sign in with a provider?", owners)
            .optional()
            .hint(
                "One owner is let in with password and second factor, for when the provider does not \
                 answer.",
            ),
        Field::text("providers", "Providers that are enough")
            .optional()
            .unstored()
            .hint("Names, with spaces between; if there are none, all of this server."),
        Field::area("domains", "Domains whose people join", 4).optional().unstored().hint(
            "One a line: the domain, the name of the provider, and the role, such as \
                 acme.example keycloak member.",
        ),
    ];
    let mut form = Form::replace(visit, PATH, fields).await?.refined(rules);
    let stored = form.stored::<Value>()?;
    for field in &mut form.fields {
        match field.name {
            "providers" => field.value = names(&stored),
            "domains" => field.value = lines(&stored),
            _ => {}
        }
    }
    let form = form.special(|visit, stored| {
        let sent = visit.form.get("domains").replace("\r\n", "\n");
        let providers = visit.form.get("providers").trim();
        vec![
            Edited::new("Providers that are enough", names(stored), providers),
            Edited::new("Domains whose people join", lines(stored), sent.trim()),
        ]
    });
    let known = providers(visit).await?;
    let known: Vec<_> = known.iter().map(|provider| provider.name.as_str()).collect();
    let lead = if known.is_empty() {
        "This server has no provider of sign-ins; its operator adds one with --oidc.".into()
    } else {
        format!("Providers of this server: {}.", known.join(", "))
    };
    let frame = visit.frame("Sign-in").tabs(&tabs(visit));
    let form = form.done(visit.path.as_str(), Flash::SignInSaved).back(visit.path.as_str());
    Ok(form.page(frame).lead(lead))
}
