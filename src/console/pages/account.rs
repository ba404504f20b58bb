//! `/account`: one's name, and one's sessions.

use askama::Template;
use serde::Deserialize;

use super::second_factor::{self, SecondFactor};
use super::sign_in::{Provider, providers};
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::Form;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::{Membership, Visit};

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::signed_in("/account")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::signed_in("/account/sessions/end").post(|visit| Box::pin(end(visit))),
];

#[derive(Template)]
#[template(path = "account.html")]
struct Account {
    frame: Frame,
    form: Form,
    email: String,
    factor: SecondFactor,
    memberships: Vec<Membership>,
    /// The accounts of providers that are linked, and the providers that there are.
    links: Vec<OwnLink>,
    providers: Vec<Provider>,
    sessions: Vec<OwnSession>,
    has_others: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnSession {
    id: String,
    current: bool,
    created_at: Time,
    expires_at: Time,
    device: Nullable<Device>,
    provider: Nullable<String>,
    last_use: Nullable<LastUse>,
}

impl OwnSession {
    /// How it was begun.
    fn how(&self) -> String {
        match (&self.device.0, &self.provider.0) {
            (Some(_), _) => "Let in by a browser".into(),
            (None, Some(provider)) => format!("With {provider}"),
            (None, None) => "With a password".into(),
        }
    }

    /// What program it is of: that of a command line is known by what it called itself then.
    fn program(&self) -> String {
        match (&self.device.0, &self.last_use.0) {
            (Some(device), _) => format!("Command line: {}", device.client),
            (None, Some(LastUse { client: Nullable(Some(client)), .. })) => client.clone(),
            _ => "Browser or API".into(),
        }
    }

    /// The address that it was used from last, or asked from.
    fn address(&self) -> &str {
        let used = self.last_use.0.as_ref().map(|used| &used.address);
        used.or(self.device.0.as_ref().map(|device| &device.address)).map_or("", String::as_str)
    }
}

/// When, where and by what it was used last.
#[derive(Deserialize)]
struct LastUse {
    at: Time,
    address: String,
    client: Nullable<String>,
}

/// The command line whose session it is.
#[derive(Deserialize)]
struct Device {
    client: String,
    address: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnLink {
    id: String,
    provider: String,
    email: Nullable<String>,
    linked_at: Time,
}

async fn own_name(visit: &Visit) -> Result<Form> {
    let name = Field::text("name", "Name").complete("name");
    let form = Form::change(visit, "/auth/user", vec![name, Field::special()]).await?;
    Ok(form.done("/account", Flash::AccountSaved))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let sessions: List<OwnSession> = visit.api.get("/auth/sessions", &[]).await?;
    let factor = second_factor::own(visit).await?;
    let mut form = own_name(visit).await?;
    let frame = visit.frame("Your account").script("notify").failed(error.as_ref());
    let session = visit.signed_in();
    let page = Account {
        email: session.user.email.clone(),
        memberships: session.memberships.clone(),
        factor,
        has_others: sessions.items.len() > 1,
        sessions: sessions.items,
        links: visit.api.items("/auth/links", &[]).await?,
        providers: providers(visit).await?,
        frame: form.ready(frame, visit, error.as_ref()),
        form,
    };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    match own_name(visit).await?.send(visit).await {
        Err(error) => show(visit, visit.failed(error)?).await,
        done => done,
    }
}

async fn end(visit: &Visit) -> Result<Reply> {
    let (path, flash) = match visit.form.some("session") {
        Some(id) => (format!("/auth/sessions/{}", segment(id)), Flash::SessionEnded),
        None => ("/auth/sessions".into(), Flash::SessionsEnded),
    };
    visit.api.delete(&path, &[]).await?;
    Ok(visit.done("/account", flash))
}
