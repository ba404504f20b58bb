//! `/o/{org}/teams/{slug}/inbox`: mail of a team's agents to the people. Opening a message does not
//! mark it read: that is a form of its own, or part of answering.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::team::{Crew, TeamPlace};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/inbox").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/teams/{slug}/inbox/{message}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
];

/// Characters of a message that lists show.
const BEGINNING: usize = 120;
/// The subject of an answer has at most as many characters as the API takes.
const SUBJECT: usize = 500;
/// So much earlier mail to the agent is shown.
const EARLIER: &str = "5";

/// A message, as pages show it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub id: String,
    pub from: Sender,
    pub to_agent_id: Nullable<String>,
    pub task_id: Nullable<String>,
    pub subject: Nullable<String>,
    pub body: String,
    pub audience: String,
    pub read_at: Nullable<Time>,
    pub created_at: Time,
}

/// Who sent it.
#[derive(Deserialize)]
pub struct Sender {
    pub id: String,
    pub name: String,
}

impl Message {
    /// Its subject, or the beginning of its text.
    pub fn title(&self) -> String {
        let text = self.subject.as_deref().unwrap_or(&self.body);
        beginning(text)
    }

    fn answer_subject(&self) -> Option<String> {
        let subject = self.subject.as_deref()?;
        let subject = subject.strip_prefix("Re: ").unwrap_or(subject);
        Some(format!("Re: {subject}").chars().take(SUBJECT).collect())
    }
}

/// The beginning of a text, on one line.
pub fn beginning(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(BEGINNING).collect();
    if short.len() < text.trim().len() {
        short.push('…');
    }
    short
}

#[derive(Template)]
#[template(path = "inbox.html")]
struct Inbox {
    frame: Frame,
    place: TeamPlace,
    messages: List<Message>,
    shows_all: bool,
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    frame: Frame,
    place: TeamPlace,
    message: Message,
    title: String,
    task: Option<u32>,
    /// Whether its sender can be answered.
    may_answer: bool,
    /// Mail to its sender, newest first.
    earlier: Vec<Message>,
}

async fn list(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let shows_all = visit.query.get("show") == "all";
    let mut query = vec![("audience", "human")];
    query.extend((!shows_all).then_some(("unread", "true")));
    query.extend(visit.walk());
    let page = Inbox {
        frame: place.crumbs(visit, visit.frame("Inbox")).live(),
        messages: visit.api.get(&place.api("/messages"), &query).await?,
        shows_all,
        place,
    };
    render(page.frame.status, &page)
}

fn path(visit: &Visit, place: &TeamPlace) -> String {
    place.api(&format!("/messages/{}", segment(visit.param(2))))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let message: Message = visit.api.get(&path(visit, &place), &[]).await?;
    let crew = Crew::read(&visit.api, &place).await?;
    let task = match message.task_id.as_deref() {
        Some(id) => Some(place.number_of(&visit.api, id).await?),
        None => None,
    };
    let may_answer = crew.find(&message.from.id).is_some();
    let mut earlier = Vec::new();
    if may_answer {
        let query = [("agentId", message.from.id.as_str()), ("limit", EARLIER)];
        let sent: List<Message> = visit.api.get(&place.api("/messages"), &query).await?;
        earlier = sent.items;
    }
    let title = message.title();
    let frame =
        place.crumbs(visit, visit.frame(&title)).crumb("Inbox", place.at("/inbox")).script("draft");
    let frame = frame.failed(error.as_ref());
    let page = MessagePage { frame, place, message, title, task, may_answer, earlier };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let read = path(visit, &place);
    let flash = match visit.form.get("action") {
        "read" => Flash::MessageRead,
        "answer" => Flash::Answered,
        _ => return show(visit, None).await,
    };
    if visit.form.get("action") == "answer" {
        let message: Message = visit.api.get(&read, &[]).await?;
        let mut body = json!({"toAgentId": message.from.id, "body": visit.form.get("body")});
        if let Some(subject) = message.answer_subject() {
            body["subject"] = json!(subject);
        }
        if let Some(task) = message.task_id.as_deref() {
            body["taskId"] = json!(task);
        }
        if let Err(error) = visit.api.post::<Value>(&place.api("/messages"), body).await {
            return show(visit, visit.failed(error)?).await;
        }
    }
    match visit.api.patch::<Value>(&read, json!({})).await {
        Ok(_) => Ok(visit.done(&place.at("/inbox"), flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_show_the_beginning_of_a_text_on_one_line() {
        assert_eq!(beginning("one"), "one");
        assert_eq!(beginning(" one\ntwo"), "one…");
        assert_eq!(beginning(&"ä".repeat(200)), format!("{}…", "ä".repeat(BEGINNING)));
        assert_eq!(beginning(""), "");
    }
}
