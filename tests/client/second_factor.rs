//! An app for one-time codes.

use roadstead::auth::totp;
use serde_json::json;

use super::Caller;

/// The second factor of a person.
pub struct App {
    pub secret: String,
    pub recovery_codes: Vec<String>,
}

impl App {
    /// Turns the second factor of who is signed in on; that uses the present code.
    #[track_caller]
    pub fn turned_on(session: &Caller, password: &str) -> Self {
        let begin = json!({ "password": password });
        let begun = session.ask("POST", "/auth/second-factor").json(&begin).send().ok();
        let secret = begun["secret"].as_str().unwrap().to_string();
        let mut app = App { secret, recovery_codes: Vec::new() };
        let confirm = json!({"code": app.code(0)});
        let path = "/auth/second-factor/confirm";
        let on = session.ask("POST", path).json(&confirm).send().ok();
        let codes = on["recoveryCodes"].as_array().unwrap().iter();
        app.recovery_codes = codes.map(|code| code.as_str().unwrap().to_string()).collect();
        app
    }

    /// The code that it shows so many steps from now.
    pub fn code(&self, steps: i64) -> String {
        code_of(&self.secret, steps)
    }
}

/// The code of a secret in base 32, so many steps from now.
pub fn code_of(secret: &str, steps: i64) -> String {
    let secret = totp::from_base32(&secret.replace(' ', "")).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let step = (now.as_secs() / 30).checked_add_signed(steps).unwrap();
    format!("{:06}", totp::code_at(&secret, step))
}
