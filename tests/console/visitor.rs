//! A browser without scripts: it keeps cookies, and sends forms as they are filled.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::client::{Connection, Reply};
use crate::html::{self, Form};

/// A browser.
#[derive(Clone)]
pub struct Visitor {
    address: SocketAddr,
    pub cookies: RefCell<BTreeMap<String, String>>,
}

/// A page, or what was answered in its place.
#[derive(Clone, Debug)]
pub struct Page {
    pub path: String,
    pub status: u16,
    pub reply: Reply,
    pub text: String,
}

impl Page {
    /// Where a redirection leads.
    #[track_caller]
    pub fn location(&self) -> &str {
        assert_eq!(self.status, 303, "{}", self.words());
        self.reply.header("location").unwrap()
    }

    /// What is read on it.
    pub fn words(&self) -> String {
        html::text(&self.text)
    }

    /// Fails unless it shows a text.
    #[track_caller]
    pub fn shows(&self, text: &str) -> &Self {
        assert!(self.words().contains(text), "no {text:?} in {}", self.words());
        self
    }

    /// Fails if it shows a text.
    #[track_caller]
    pub fn hides(&self, text: &str) -> &Self {
        assert!(!self.words().contains(text), "{text:?} in {}", self.words());
        self
    }

    /// Its forms.
    pub fn forms(&self) -> Vec<Form> {
        html::forms(&self.text)
    }

    /// The form that is sent to a path.
    #[track_caller]
    pub fn form(&self, action: &str) -> Form {
        let found = self.forms().into_iter().find(|form| form.action == action);
        found.unwrap_or_else(|| panic!("no form for {action} on {}", self.path))
    }

    /// The value of a field of a form.
    #[track_caller]
    pub fn field(&self, action: &str, name: &str) -> String {
        let form = self.form(action);
        let found = form.fields.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("no field {name} in {form:?}")).1.clone()
    }

    /// Whether a field is marked as wrong.
    pub fn has_problem(&self, field: &str) -> bool {
        let tags = html::tags(&self.text);
        tags.iter().any(|tag| tag.get("aria-errormessage") == Some(&format!("e-{field}")))
    }

    /// Paths of this server that it links to.
    pub fn links(&self) -> Vec<String> {
        let tags = html::tags(&self.text);
        let links = tags.iter().filter(|tag| tag.name == "a").filter_map(|tag| tag.get("href"));
        let mut links: Vec<_> = links
            .filter(|link| link.starts_with('/'))
            .map(|link| link.split('#').next().unwrap_or_default().to_string())
            .collect();
        links.sort();
        links.dedup();
        links
    }
}

impl Visitor {
    /// A browser that has not been anywhere.
    pub fn new(address: SocketAddr) -> Self {
        Visitor { address, cookies: RefCell::default() }
    }

    /// Opens a page.
    #[track_caller]
    pub fn get(&self, path: &str) -> Page {
        self.request("GET", path, &[("Sec-Fetch-Site", "same-origin")], "")
    }

    /// Opens a page, and the one that it leads to.
    #[track_caller]
    pub fn open(&self, path: &str) -> Page {
        let mut page = self.get(path);
        for _ in 0..5 {
            if page.status != 303 {
                return page;
            }
            let next = page.location().to_string();
            page = self.get(&next);
        }
        panic!("{path} leads on and on");
    }

    /// Asks for a page, and leaves the answer to be read.
    pub fn connect(&self, path: &str) -> Connection {
        let cookies = self.cookies.borrow().clone();
        let all: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (address, cookies) = (self.address, all.join("; "));
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookies}\r\n\
             Sec-Fetch-Site: same-origin\r\n\r\n"
        );
        let mut connection = Connection::open(self.address).unwrap();
        connection.write(head.as_bytes()).unwrap();
        connection
    }

    /// Sends a body of a form, and leaves the answer to be read.
    pub fn post_and_leave(&self, path: &str, body: &str) -> Connection {
        let cookies = self.cookies.borrow().clone();
        let all: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (address, cookies, length) = (self.address, all.join("; "), body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookies}\r\n\
             Sec-Fetch-Site: same-origin\r\nContent-Length: {length}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}"
        );
        let mut connection = Connection::open(self.address).unwrap();
        connection.write(head.as_bytes()).unwrap();
        connection
    }

    /// Sends a form of a page, with these fields filled.
    #[track_caller]
    pub fn send(&self, page: &Page, action: &str, fields: &[(&str, &str)]) -> Page {
        self.send_form(&page.form(action), fields)
    }

    /// Sends a form of a page, and opens the page that it leads to.
    #[track_caller]
    pub fn submit(&self, page: &Page, action: &str, fields: &[(&str, &str)]) -> Page {
        let reply = self.send(page, action, fields);
        if reply.status == 303 { self.open(reply.location()) } else { reply }
    }

    /// Sends a form with these fields filled.
    #[track_caller]
    pub fn send_form(&self, form: &Form, fields: &[(&str, &str)]) -> Page {
        let mut filled = form.fields.clone();
        for (name, value) in fields {
            match filled.iter_mut().find(|(known, _)| known == name) {
                Some(field) => field.1 = value.to_string(),
                None => filled.push((name.to_string(), value.to_string())),
            }
        }
        // As browsers do.
        let filled = filled.iter().map(|(name, value)| (name, value.replace('\n', "\r\n")));
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(filled).finish();
        self.post(&form.action, &[("Sec-Fetch-Site", "same-origin")], &body)
    }

    /// Sends a form of a page with its fields filled and a file: its name, its type, its bytes.
    #[track_caller]
    pub fn send_file(
        &self,
        page: &Page,
        action: &str,
        fields: &[(&str, &str)],
        file: (&str, &str, &[u8]),
    ) -> Page {
        self.send_files(page, action, fields, &[file])
    }

    /// Does the same with several files.
    #[track_caller]
    pub fn send_files(
        &self,
        page: &Page,
        action: &str,
        fields: &[(&str, &str)],
        files: &[(&str, &str, &[u8])],
    ) -> Page {
        let form = page.form(action);
        let mut body = Vec::new();
        for (name, value) in form.fields.iter().filter(|(name, _)| name != "file") {
            let filled = fields.iter().find(|(known, _)| known == name);
            let value = filled.map_or(value.as_str(), |(_, value)| value);
            body.extend(
                format!(
                    "--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
                )
                .into_bytes(),
            );
        }
        for (name, media_type, bytes) in files {
            body.extend(
                format!(
                    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
                     Content-Type: {media_type}\r\n\r\n"
                )
                .into_bytes(),
            );
            body.extend([bytes, &b"\r\n"[..]].concat());
        }
        body.extend(b"--b--\r\n");
        self.post_parts(action, "multipart/form-data; boundary=b", &body)
    }

    /// Posts a body of this type.
    #[track_caller]
    pub fn post_parts(&self, path: &str, media_type: &str, body: &[u8]) -> Page {
        self.exchange("POST", path, &[("Sec-Fetch-Site", "same-origin")], media_type, body)
    }

    /// Posts a body.
    #[track_caller]
    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Page {
        self.request("POST", path, headers, body)
    }

    /// Sends a request with the cookies, and keeps those of the response.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, more: &[(&str, &str)], body: &str) -> Page {
        let fields = "application/x-www-form-urlencoded";
        self.exchange(method, path, more, fields, body.as_bytes())
    }

    #[track_caller]
    fn exchange(
        &self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        media_type: &str,
        body: &[u8],
    ) -> Page {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/html\r\nConnection: close\r\n",
            self.address
        );
        let cookies = self.cookies.borrow().clone();
        if !cookies.is_empty() {
            let all: Vec<_> =
                cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            head.push_str(&format!("Cookie: {}\r\n", all.join("; ")));
        }
        for (name, value) in more {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if method == "POST" {
            let length = body.len();
            head.push_str(&format!("Content-Type: {media_type}\r\nContent-Length: {length}\r\n"));
        }
        let mut connection = Connection::open(self.address).unwrap();
        // The server may answer, and close, before it has read everything.
        let _ = connection.write(&[format!("{head}\r\n").as_bytes(), body].concat());
        let mut reply = connection.reply(method == "HEAD").unwrap();
        // An answer as it comes, which ends; what is listened to does not.
        if method == "POST" && reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = Some(connection.chunk().unwrap()).filter(|it| !it.is_empty()) {
                reply.body.extend(chunk.into_bytes());
            }
        }
        for (name, value) in &reply.headers {
            if name == "set-cookie" {
                self.keep(value);
            }
        }
        Page { path: path.into(), status: reply.status, text: reply.text(), reply }
    }

    fn keep(&self, cookie: &str) {
        let (pair, attributes) = cookie.split_once(';').unwrap();
        let (name, value) = pair.split_once('=').unwrap();
        // A provider of sign-ins leads back from another site.
        let site = if name.ends_with("-attempt") { "SameSite=Lax" } else { "SameSite=Strict" };
        for needed in ["Path=/", "HttpOnly", site] {
            assert!(attributes.contains(needed), "{cookie}");
        }
        let mut cookies = self.cookies.borrow_mut();
        if attributes.contains("Max-Age=0") {
            cookies.remove(name);
        } else {
            cookies.insert(name.into(), value.into());
        }
    }
}

/// Sends one of a page's forms by one of its buttons.
#[track_caller]
pub fn press(visitor: &Visitor, page: &Page, button: (&str, &str), more: &[(&str, &str)]) -> Page {
    let has = |name: &String, value: &String| (name.as_str(), value.as_str()) == button;
    let forms = page.forms().into_iter();
    let mut found = forms.filter(|form| form.buttons.iter().any(|(name, value)| has(name, value)));
    let form = found.next().unwrap_or_else(|| panic!("no button {button:?} on {}", page.path));
    let fields = [more, &[button]].concat();
    let reply = visitor.send_form(&form, &fields);
    if reply.status == 303 { visitor.open(reply.location()) } else { reply }
}
