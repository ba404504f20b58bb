//! `/o/{org}/settings/sign-in`: whose people join the organization by signing in, what they get by what their
//! provider says of them, and whether they must sign in with one.

use serde::Deserialize;
use serde_json::{Value, json};

use super::sign_in::providers;
use crate::auth::Role;
use crate::base::{Error, Result};
use crate::console::choice::{Chooser, Kind};
use crate::console::chooser::between;
use crate::console::conflict::Edited;
use crate::console::field::{Field, lines};
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::page::Page;
use crate::console::roster::{Member, members, tabs, without_provider};
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/settings/sign-in").form(|visit| Box::pin(form(visit)))];

const PATH: &str = "/organizations/sign-in";

/// The field for the owner who is let in with a password.
const BREAK_GLASS: Chooser = Chooser::one("breakGlassUserId", Kind::Person);

#[derive(Deserialize)]
struct Joining {
    domain: String,
    provider: String,
    role: String,
    grants: Vec<RuleGrant>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuleGrant {
    resource_type: String,
    resource_id: String,
}

#[derive(Deserialize)]
struct Rule {
    provider: String,
    claim: String,
    value: String,
    role: Nullable<String>,
    grants: Vec<RuleGrant>,
}

#[derive(Deserialize)]
struct Stored {
    providers: Vec<String>,
    domains: Vec<Joining>,
    rules: Vec<Rule>,
}

/// The names of the providers that are enough.
fn names(stored: &Value) -> String {
    Stored::deserialize(stored).map(|stored| stored.providers.join(" ")).unwrap_or_default()
}

/// Grants as words of a line.
fn grant_words(grants: &[RuleGrant]) -> impl Iterator<Item = String> {
    grants.iter().map(|grant| format!("{}:{}", grant.resource_type, grant.resource_id))
}

/// Adds the role and the grants that words of a line name.
fn read_rights<'a>(rule: &mut Value, words: impl Iterator<Item = &'a str>) {
    let (mut grants, mut roles) = (Vec::new(), Vec::new());
    for word in words {
        match word.split_once(':') {
            Some((kind, id)) => grants.push(json!({"resourceType": kind, "resourceId": id})),
            None => roles.push(word),
        }
    }
    rule["grants"] = json!(grants);
    // Of several the API says that it is no role.
    if !roles.is_empty() {
        rule["role"] = json!(roles.join(" "));
    }
}

/// The domains as lines of a text.
fn domain_lines(stored: &Value) -> String {
    let domains = Stored::deserialize(stored).map(|stored| stored.domains).unwrap_or_default();
    let line = |rule: &Joining| {
        let mut words = vec![rule.domain.clone(), rule.provider.clone(), rule.role.clone()];
        words.extend(grant_words(&rule.grants));
        words.join(" ")
    };
    domains.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The rules as lines of a text.
fn rule_lines(stored: &Value) -> String {
    let rules = Stored::deserialize(stored).map(|stored| stored.rules).unwrap_or_default();
    let line = |rule: &Rule| {
        let mut words = vec![rule.provider.clone()];
        words.extend(rule.role.0.clone());
        words.extend(grant_words(&rule.grants));
        words.push(format!("{}={}", rule.claim, rule.value));
        words.join(" ")
    };
    rules.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The domain of a line; what is missing in it is for the API to say.
fn domain(line: &str) -> Value {
    let (mut words, mut rule) = (line.split_whitespace(), json!({}));
    for name in ["domain", "provider"] {
        if let Some(word) = words.next() {
            rule[name] = json!(word);
        }
    }
    read_rights(&mut rule, words);
    rule
}

/// The rule of a line: its first word with `=` begins the claim, whose value may have spaces.
fn rule(line: &str) -> Value {
    let is_claim = |word: &str| word.contains('=');
    let words = line.trim().split(' ').filter(|word| !word.is_empty());
    let mut before = words.take_while(|word| !is_claim(word));
    let claim = line.split_once('=').map(|(before, value)| {
        (before.split_whitespace().next_back().unwrap_or_default(), value.trim())
    });
    let mut rule = json!({});
    if let Some(provider) = before.next() {
        rule["provider"] = json!(provider);
    }
    read_rights(&mut rule, before);
    if let Some((claim, value)) = claim {
        rule["claim"] = json!(claim);
        rule["value"] = json!(value);
    }
    rule
}

fn refined(visit: &Visit, _: &Value, body: &mut Value) {
    let of_lines = |name: &str, of: fn(&str) -> Value| -> Value {
        lines(visit.form.get(name)).into_iter().map(of).collect()
    };
    body["domains"] = of_lines("domains", domain);
    body["rules"] = of_lines("rules", rule);
    if visit.form.some("breakGlassUserId").is_none() {
        body["breakGlassUserId"] = Value::Null;
    }
    body["providers"] = visit.form.get("providers").split_whitespace().collect();
}

/// Whom each provider of this server would keep out, if it alone were required: whether and which ones are is
/// what the form asks. Of one that the organization asks nothing of, only who administers the installation is
/// told.
fn kept_out(
    known: &[&str],
    members: &[Member],
    stored: &Value,
    is_told: impl Fn(&str) -> bool,
) -> String {
    let let_in = stored["breakGlassUserId"].as_str().unwrap_or_default();
    let lacking = |name: &&str| {
        let without = match without_provider(members, name, let_in) {
            _ if !is_told(name) => "not told before it is required".into(),
            nobody if nobody.is_empty() => "nobody".into(),
            names => names,
        };
        format!("at {name}: {without}")
    };
    let lacking = known.iter().map(lacking).collect::<Vec<_>>().join("; ");
    format!(
        "Who has not linked an account yet, {lacking}. Where members must sign in with one of these, they \
         get in only once they have linked an account there, so let them do it first."
    )
}

/// Whether the organization asks something of a provider.
fn asks(stored: &Value, name: &str) -> bool {
    Stored::deserialize(stored).is_ok_and(|stored| {
        stored.providers.iter().any(|provider| provider == name)
            || stored.domains.iter().any(|domain| domain.provider == name)
            || stored.rules.iter().any(|rule| rule.provider == name)
    })
}

/// The choice between the owners of these members who may be let in with a password.
fn break_glass(all: &[Member]) -> Field {
    let is_owner = |member: &&Member| member.role == Role::Owner && !member.is_service();
    let owners: Vec<_> = all.iter().filter(is_owner).collect();
    let label = "Must people sign in with a provider?";
    let each = owners.iter().map(|one| (one.user_id.clone(), format!("Yes, but for {}", one.name)));
    let none = Some("No: a password is enough");
    let owner = between(label, BREAK_GLASS, none, each.collect()).optional();
    if owner.chooser().is_none() {
        return owner;
    }
    let named = owners.iter().map(|one| (one.user_id.clone(), one.email.clone()));
    owner.named(named.collect())
}

async fn form(visit: &Visit) -> Result<FormPage> {
    if visit.member().role != Role::Owner {
        return Err(Error::forbidden(
            "owner_required",
            "only an owner may change how people sign in",
        ));
    }
    let all = members(&visit.api).await?;
    let fields = vec![
        break_glass(&all)
            .hint(
                "One owner is let in with password and second factor, for when the provider does not \
                 answer.",
            ),
        Field::text("providers", "Providers that are enough")
            .optional()
            .unstored()
            .hint("Names, with spaces between; if there are none, all of this server."),
        Field::area("domains", "Domains whose people join", 4).optional().unstored().hint(
            "One a line: the domain, the name of the provider, the role, and what is granted who joins, if \
             anything (registry:ID, environment:ID, fleet:ID), such as acme.example keycloak member.",
        ),
        Field::area("rules", "What a provider's groups give", 4).optional().unstored().hint(
            "One a line: the name of the provider, a role or what is granted (registry:ID, \
                 environment:ID, fleet:ID) or both, and the claim, such as keycloak admin groups=ops.",
        ),
    ];
    let mut form = Form::replace(visit, PATH, fields).await?.refined(refined);
    let stored = form.stored::<Value>()?;
    for field in &mut form.fields {
        match field.name {
            "providers" => field.value = names(&stored),
            "domains" => field.value = domain_lines(&stored),
            "rules" => field.value = rule_lines(&stored),
            _ => {}
        }
    }
    let form = form.special(|visit, stored| {
        let sent = |name| visit.form.get(name).replace("\r\n", "\n").trim().to_string();
        let providers = visit.form.get("providers").trim();
        vec![
            Edited::new("Providers that are enough", names(stored), providers),
            Edited::new("Domains whose people join", domain_lines(stored), sent("domains")),
            Edited::new("What a provider's groups give", rule_lines(stored), sent("rules")),
        ]
    });
    let known = providers(visit).await?;
    let known: Vec<_> = known.iter().map(|provider| provider.name.as_str()).collect();
    let lead = if known.is_empty() {
        "This server has no provider of sign-ins; its operator adds one with --oidc.".into()
    } else {
        let of_installation = visit.signed_in().installation_admin;
        let is_told = |name: &str| of_installation || asks(&stored, name);
        let without = kept_out(&known, &all, &stored, is_told);
        format!("Providers of this server: {}. {without}", known.join(", "))
    };
    let frame = visit.frame("Sign-in").tabs(&tabs(visit));
    let form = form.done(visit.path.as_str(), Flash::SignInSaved).back(visit.path.as_str());
    Ok(form.page(frame).lead(lead))
}
