//! Protected labels of a registry: the list on its page, and the form of one
//! (`/o/{org}/registries/{registry}/labels/{label}`).

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::environments::{Approvals, approving, without_nobody};
use crate::api::Method;
use crate::auth::Role;
use crate::base::{Error, Kind, Result};
use crate::console::api::{Api, segment};
use crate::console::choice::{Chooser, Kind as Chosen};
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::people;
use crate::console::reply::Reply;
use crate::console::roster::{self, Member};
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/registries/{registry}/labels/{label}")
        .get(|visit| Box::pin(edit(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/registries/{registry}/labels/{label}/delete")
        .form(|visit| Box::pin(delete(visit))),
];

/// Who moves a label, by their role.
const ROLES: [(Role, &str, &str); 3] = [
    (Role::Member, "member", "All members"),
    (Role::Admin, "admin", "Admins and owners"),
    (Role::Owner, "owner", "Owners"),
];

/// The field for those who move it besides.
const MOVERS: Chooser = Chooser::one("mover", Chosen::Member).many();

/// The protection of a label.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProtectedLabel {
    pub label: String,
    min_role: Nullable<Role>,
    user_ids: Vec<String>,
    approvals: Nullable<Approvals>,
    pub may_move: bool,
}

impl ProtectedLabel {
    /// Who moves it, for people.
    pub fn movers(&self, members: &[Member]) -> String {
        let by_role = ROLES.iter().find(|(role, ..)| self.min_role.0 == Some(*role));
        let by_role = by_role.map(|(.., text)| *text);
        let named = self.user_ids.iter().map(|id| roster::name(members, id));
        let all: Vec<_> = by_role.into_iter().chain(named).collect();
        if all.is_empty() { "Nobody".into() } else { all.join(", ") }
    }

    /// Warns if what is asked for would wait in vain; empty otherwise.
    fn warning(&self, members: &[Member]) -> String {
        let Some(own) = &self.approvals.0 else { return String::new() };
        let warning = roster::too_few(members, &own.approver_ids, own.min_approvals);
        if !warning.is_empty() || !own.prevent_self_approval {
            return warning;
        }
        let can =
            |member: &&Member| member.can_approve() && own.approver_ids.contains(&member.user_id);
        let all: Vec<&Member> = members.iter().filter(can).collect();
        match all[..] {
            [one] if self.permits(one) => format!(
                "{0} alone can approve now, and may move it, too: nobody approves what {0} asks for.",
                one.name
            ),
            _ => String::new(),
        }
    }

    /// Whether a member may move it.
    fn permits(&self, member: &Member) -> bool {
        self.min_role.is_some_and(|least| member.role >= least)
            || self.user_ids.contains(&member.user_id)
    }

    /// How many approvals a move takes.
    pub fn approvals(&self) -> u32 {
        self.approvals.as_ref().map_or(0, |approvals| approvals.min_approvals)
    }
}

/// Reads the protected labels of a registry.
pub async fn of_registry(api: &Api, registry: &str) -> Result<Vec<ProtectedLabel>> {
    api.items(&format!("/registries/{}/protected-labels", segment(registry)), &[]).await
}

/// Whether the visitor may protect labels.
pub fn may_protect(visit: &Visit) -> bool {
    visit.may(Method::Put, "/registries/id/protected-labels/label")
}

/// The path of the page of a protected label.
pub fn path(visit: &Visit, registry: &str, label: &str) -> String {
    visit.in_org(&format!("/registries/{}/labels/{}", segment(registry), segment(label)))
}

/// Protects the label that a form names, so that admins alone move it, and leads to the form that says
/// who else. One that is protected already stays as it is.
pub async fn protect(visit: &Visit, registry: &str) -> Result<Reply> {
    let label = visit.form.get("label").trim();
    if label.is_empty() {
        return Err(Error::invalid_at("label", "must be given"));
    }
    let api_path = format!("/registries/{}/protected-labels/{}", segment(registry), segment(label));
    let page = path(visit, registry, label);
    match visit.api.put_new(&api_path, json!({"minRole": "admin"})).await {
        Ok(()) => Ok(visit.done(&page, Flash::LabelProtected)),
        Err(error) if error.kind() == Kind::Precondition => Ok(Reply::see_other(page)),
        Err(error) => Err(error),
    }
}

#[derive(Template)]
#[template(path = "protected_label.html")]
struct ProtectedLabelPage {
    frame: Frame,
    form: Form,
    /// That those who are stored cannot approve what is asked for.
    warning: String,
    delete: String,
}

fn api_path(visit: &Visit) -> String {
    let (registry, label) = (segment(visit.param(1)), segment(visit.param(2)));
    format!("/registries/{registry}/protected-labels/{label}")
}

fn above(visit: &Visit) -> String {
    visit.in_org(&format!("/prompts/{}", segment(visit.param(1))))
}

fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Prompts", visit.in_org("/prompts")).crumb(visit.param(1), above(visit))
}

async fn settings(visit: &Visit) -> Result<Form> {
    let stored: Value = visit.api.get(&api_path(visit), &[]).await?;
    let movers = people::several(visit, "Who else moves it", MOVERS, &stored["userIds"]).await?;
    let roles = ROLES.map(|(_, value, text)| (value, text));
    let roles = [("", "Only those named below")].into_iter().chain(roles);
    let mut fields = vec![
        Field::select("minRole", "Who moves it", roles).optional(),
        movers.at("userIds").hint("Names or addresses, with commas."),
    ];
    fields.extend(approving(visit, "Who approves", &stored["approvals"]).await?);
    fields.extend([
        Field::special(),
        Field::check("preventSelfApproval", "Who asks does not approve it themselves")
            .at("approvals.preventSelfApproval"),
        Field::text("approvalTimeoutHours", "Hours until a change that waits ends")
            .kind("number")
            .number(),
    ]);
    let form = Form::replace(visit, &api_path(visit), fields).await?;
    let form = form.back(above(visit)).done(above(visit), Flash::LabelProtectionSaved);
    Ok(form.refined(|_, _, body| without_nobody(body)))
}

async fn edit(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Put, "/registries/id/protected-labels/label")?;
    let mut form = settings(visit).await?;
    let stored: ProtectedLabel = form.stored()?;
    let members = roster::members(&visit.api).await?;
    let approvers = stored.approvals.as_ref().map(|own| own.approver_ids.as_slice());
    let warning = match stored.warning(&members) {
        none if none.is_empty() => roster::unable(&members, approvers.unwrap_or_default()),
        warning => warning,
    };
    let frame = visit.frame(&format!("Who moves {}", stored.label));
    let frame = crumbs(visit, frame).failed(error.as_ref());
    let frame = form.ready(frame, visit, error.as_ref());
    let page = ProtectedLabelPage {
        frame: form.offer(frame, visit).await?,
        form,
        warning,
        delete: format!("{}/delete", path(visit, visit.param(1), &stored.label)),
    };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    match settings(visit).await?.send(visit).await {
        Err(error) => edit(visit, visit.failed(error)?).await,
        Ok(done) => {
            let stored: ProtectedLabel = visit.api.get(&api_path(visit), &[]).await?;
            let warning = stored.warning(&roster::members(&visit.api).await?);
            // The form says it again, with who was chosen.
            let own = || {
                visit.done(&path(visit, visit.param(1), &stored.label), Flash::LabelProtectionSaved)
            };
            Ok(if warning.is_empty() { done } else { own() })
        }
    }
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let frame = visit.frame(&format!("Stop protecting {}?", visit.param(2)));
    let form = form.done(above(visit), Flash::LabelUnprotected);
    Ok(form.page(crumbs(visit, frame)).lead(
        "All members who use the registry may move and remove it then, without approval. What waits \
         for approval goes on to wait.",
    ))
}
