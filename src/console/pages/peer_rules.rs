//! `/o/{org}/teams/{slug}/peers/rules`: domains whose agents are accepted at once or turned away, by
//! rules of the team and of the organization.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::auth::Role;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::team::TeamPlace;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/teams/{slug}/peers/rules")
    .get(|visit| Box::pin(show(visit, None)))
    .post(|visit| Box::pin(act(visit)))];

/// What a rule says of a domain.
const RULES: [(&str, &str); 2] =
    [("allow", "Accept its agents at once"), ("block", "Turn its agents away")];

#[derive(Template)]
#[template(path = "peer_rules.html")]
struct Rules {
    frame: Frame,
    rules: List<Rule>,
    people: People,
    kinds: &'static [(&'static str, &'static str)],
    /// Whether the visitor may make rules for the whole organization.
    is_admin: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: String,
    domain: String,
    rule: String,
    org_wide: bool,
    created_by: String,
    created_at: Time,
}

impl Rule {
    /// Class, icon and word of what it says.
    fn state(&self) -> (&'static str, &'static str, &'static str) {
        if self.rule == "allow" {
            ("good", "check", "Accepted at once")
        } else {
            ("bad", "octagon", "Turned away")
        }
    }
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let frame = place.crumbs(visit, visit.frame("Rules for domains"));
    let page = Rules {
        frame: frame.crumb("Peers", place.at("/peers")).failed(error.as_ref()),
        rules: visit
            .api
            .get(&place.api("/exchange/domain-rules"), visit.cursor().as_slice())
            .await?,
        people: People::read(&visit.api).await?,
        kinds: &RULES,
        is_admin: visit.member().role >= Role::Admin,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let path = place.api("/exchange/domain-rules");
    let of = |name| visit.form.get(name).trim();
    let (done, flash) = match of("action") {
        "remove" => {
            let path = format!("{path}/{}", segment(of("id")));
            (visit.api.delete(&path, &[]).await, Flash::RuleDeleted)
        }
        "set" => {
            let is_org_wide = visit.form.sent("orgWide").is_some();
            let body = json!({"domain": of("domain"), "rule": of("rule"), "orgWide": is_org_wide});
            (visit.api.post::<Value>(&path, body).await.map(drop), Flash::RuleSet)
        }
        _ => return show(visit, None).await,
    };
    match done {
        Ok(()) => Ok(visit.done(&visit.path, flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}
