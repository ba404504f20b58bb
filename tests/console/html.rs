//! As much of HTML as the console's pages need to be read: tags, their attributes, forms.

/// An element's beginning.
#[derive(Clone, Debug)]
pub struct Tag {
    pub name: String,
    pub attributes: Vec<(String, String)>,
    /// The text up to the next tag, decoded.
    pub text: String,
}

impl Tag {
    /// An attribute.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A form.
#[derive(Clone, Debug)]
pub struct Form {
    pub action: String,
    pub is_post: bool,
    /// Names and values of its fields, hidden ones included; buttons are not among them.
    pub fields: Vec<(String, String)>,
    /// The names of those that a person fills.
    pub entered: Vec<String>,
    /// What its choices offer: the name of each with its values.
    pub choices: Vec<(String, Vec<String>)>,
    /// Names and values of its buttons.
    pub buttons: Vec<(String, String)>,
}

/// Decodes the references that escaping makes.
pub fn decoded(text: &str) -> String {
    text.replace("&#60;", "<")
        .replace("&#62;", ">")
        .replace("&#34;", "\"")
        .replace("&#39;", "'")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#38;", "&")
        .replace("&amp;", "&")
}

/// All tags of a page, ends included (their names begin with `/`).
pub fn tags(html: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let name_end = rest.find(|c: char| c.is_whitespace() || c == '>').unwrap_or(rest.len());
        let name = rest[..name_end].trim_end_matches('/').to_ascii_lowercase();
        rest = &rest[name_end..];
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start().trim_start_matches('/');
            if rest.starts_with('>') || rest.is_empty() {
                break;
            }
            let end = rest.find(|c: char| c.is_whitespace() || "=>".contains(c)).unwrap();
            let key = rest[..end].to_string();
            rest = &rest[end..];
            let mut value = String::new();
            if let Some(quoted) = rest.strip_prefix("=\"") {
                let end = quoted.find('"').unwrap();
                value = decoded(&quoted[..end]);
                rest = &quoted[end + 1..];
            }
            attributes.push((key, value));
        }
        rest = rest.strip_prefix('>').unwrap_or(rest);
        let text = decoded(&rest[..rest.find('<').unwrap_or(rest.len())]);
        tags.push(Tag { name, attributes, text });
    }
    tags
}

/// The forms of a page.
pub fn forms(html: &str) -> Vec<Form> {
    let mut forms: Vec<Form> = Vec::new();
    let mut select = None;
    let mut is_open = false;
    // Buttons that send the form elsewhere: with each it is another form.
    let mut elsewhere: Vec<(String, (String, String))> = Vec::new();
    for tag in tags(html) {
        match tag.name.as_str() {
            "form" => {
                is_open = true;
                forms.push(Form {
                    action: tag.get("action").unwrap_or_default().into(),
                    is_post: tag.get("method") == Some("post"),
                    fields: Vec::new(),
                    entered: Vec::new(),
                    choices: Vec::new(),
                    buttons: Vec::new(),
                });
            }
            "/form" => {
                is_open = false;
                for (action, button) in elsewhere.drain(..) {
                    let form = forms.last().unwrap().clone();
                    forms.push(Form { action, buttons: vec![button], ..form });
                }
            }
            _ => {}
        }
        let Some(form) = forms.last_mut().filter(|_| is_open) else { continue };
        let name = tag.get("name").map(String::from);
        let value = tag.get("value").unwrap_or_default().to_string();
        let is_shown = tag.get("type") != Some("hidden");
        if matches!(tag.name.as_str(), "input" | "textarea" | "select") && is_shown {
            form.entered.extend(name.clone());
        }
        match (tag.name.as_str(), name) {
            ("input", Some(name)) => form.fields.push((name, value)),
            ("textarea", Some(name)) => {
                let text = tag.text.strip_prefix('\n').unwrap_or(&tag.text).to_string();
                form.fields.push((name, text));
            }
            ("button", Some(name)) => match tag.get("formaction") {
                Some(action) => elsewhere.push((action.into(), (name, value))),
                None => form.buttons.push((name, value)),
            },
            ("select", Some(name)) => {
                form.choices.push((name.clone(), Vec::new()));
                select = Some(name);
            }
            ("option", _) => {
                if let Some(name) = &select {
                    form.choices.last_mut().unwrap().1.push(value.clone());
                    let known = form.fields.iter_mut().find(|(known, _)| known == name);
                    match known {
                        None => form.fields.push((name.clone(), value)),
                        Some(field) if tag.get("selected").is_some() => field.1 = value,
                        Some(_) => {}
                    }
                }
            }
            ("/select", _) => select = None,
            _ => {}
        }
    }
    forms
}

/// The text of a page, without its tags, blanks joined.
pub fn text(html: &str) -> String {
    let body = html.split("</svg>").last().unwrap_or(html);
    let body = html.find("<body").map_or(body, |at| &html[at..]);
    let words = tags(body).into_iter().map(|tag| tag.text).collect::<String>();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
