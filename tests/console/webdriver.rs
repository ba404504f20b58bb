//! A real browser: Debian's chromium, driven by its chromedriver with the W3C's WebDriver protocol,
//! which is JSON over HTTP.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Connection;

/// What a page may take until it shows something.
const PATIENCE: Duration = Duration::from_secs(20);
/// The key of an element's id in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A running chromedriver.
pub struct Driver {
    address: SocketAddr,
    process: Child,
}

/// A browser with its own profile. It is closed when dropped.
pub struct Browser<'a> {
    driver: &'a Driver,
    session: String,
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts the driver; says why, if it is left out.
pub fn driver() -> Option<Driver> {
    if std::env::var("ROADSTEAD_TEST_BROWSER").is_ok_and(|value| value == "off") {
        eprintln!("left out: tests in a browser (ROADSTEAD_TEST_BROWSER=off)");
        return None;
    }
    // It chooses a port that is free and takes it a moment later: another process may have it then.
    for _ in 0..5 {
        let started = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(process) => {
                if let Some(driver) = listening(process) {
                    return Some(driver);
                }
            }
            Err(error) => {
                eprintln!("left out: tests in a browser, as chromedriver cannot start: {error}");
                return None;
            }
        }
    }
    panic!("chromedriver ends without a port");
}

/// The driver once it listens; `None` if it ended.
fn listening(mut process: Child) -> Option<Driver> {
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| {
        let line = line.ok()?;
        let port = line.split("on port ").nth(1)?.trim_end_matches('.').parse::<u16>().ok()?;
        // It first says that it was asked for any.
        (port != 0).then_some(port)
    });
    let Some(port) = port else {
        let _ = process.kill();
        let _ = process.wait();
        return None;
    };
    // What it prints later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Some(Driver { address: ([127, 0, 0, 1], port).into(), process })
}

impl Driver {
    /// Opens a browser of this size, with or without scripts.
    pub fn browser(&self, width: u32, height: u32, scripts: bool) -> Browser<'_> {
        self.browser_with((width, height), scripts, &[])
    }

    /// The same, which finds a domain at an address of this machine.
    pub fn browser_that_finds(&self, domain: &str, at: SocketAddr, scripts: bool) -> Browser<'_> {
        let rule = format!("--host-resolver-rules=MAP {domain} {at}");
        self.browser_with((1280, 800), scripts, &[&rule, "--no-proxy-server"])
    }

    fn browser_with(
        &self,
        (width, height): (u32, u32),
        scripts: bool,
        more: &[&str],
    ) -> Browser<'_> {
        let setting = if scripts { 1 } else { 2 };
        let size = format!("--window-size={width},{height}");
        let own = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        let looks = ["--hide-scrollbars", "--lang=en", &size];
        let args = [&own[..], &looks, more].concat();
        let options = json!({
            "args": args,
            "prefs": {"profile.managed_default_content_settings.javascript": setting},
        });
        // Certificates of tests are nobody's.
        let wanted = json!({"goog:chromeOptions": options, "acceptInsecureCerts": true});
        let wanted = json!({"capabilities": {"alwaysMatch": wanted}});
        let session = self.ask("POST", "/session", Some(&wanted)).unwrap();
        let session = session["sessionId"].as_str().unwrap().to_string();
        let browser = Browser { driver: self, session };
        browser.resize(width, height);
        browser
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        let mut connection = Connection::open(self.address).unwrap();
        connection.write(format!("{head}{body}").as_bytes()).unwrap();
        let reply = connection.reply(false).unwrap();
        let value = reply.json()["value"].clone();
        if reply.status == 200 { Ok(value) } else { Err(value["message"].to_string()) }
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        let _ = self.ask("DELETE", "", None);
    }
}

impl Browser<'_> {
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        self.driver.ask(method, &format!("/session/{}{path}", self.session), body)
    }

    /// Gives its window another size.
    pub fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let metrics = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": size});
        self.ask("POST", "/goog/cdp/execute", Some(&metrics)).unwrap();
    }

    /// Grants an origin a permission that the browser asks people for.
    #[track_caller]
    pub fn permit(&self, permission: &str, origin: &str) {
        self.permit_all(&[permission], origin);
    }

    /// Grants an origin these permissions, and no others.
    #[track_caller]
    pub fn permit_all(&self, permissions: &[&str], origin: &str) {
        let params = json!({"permissions": permissions, "origin": origin});
        let grant = json!({"cmd": "Browser.grantPermissions", "params": params});
        self.ask("POST", "/goog/cdp/execute", Some(&grant)).unwrap();
    }

    /// Opens a URL.
    #[track_caller]
    pub fn open(&self, url: &str) {
        self.ask("POST", "/url", Some(&json!({"url": url}))).unwrap();
    }

    /// Goes back.
    pub fn back(&self) {
        self.ask("POST", "/back", Some(&json!({}))).unwrap();
    }

    /// The URL of the page.
    pub fn url(&self) -> String {
        self.ask("GET", "/url", None).unwrap().as_str().unwrap().into()
    }

    fn find(&self, css: &str) -> Result<String, String> {
        let query = json!({"using": "css selector", "value": css});
        let found = self.ask("POST", "/element", Some(&query))?;
        Ok(found[ELEMENT].as_str().unwrap().into())
    }

    /// An element that is there, or will be.
    #[track_caller]
    fn element(&self, css: &str) -> String {
        let begun = Instant::now();
        loop {
            match self.find(css) {
                Ok(id) => return id,
                Err(error) if begun.elapsed() > PATIENCE => {
                    panic!("no {css} at {}: {error}\n{}", self.url(), self.text())
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Clicks an element.
    #[track_caller]
    pub fn click(&self, css: &str) {
        let id = self.element(css);
        self.ask("POST", &format!("/element/{id}/click"), Some(&json!({}))).unwrap();
    }

    /// Replaces the value of a field.
    #[track_caller]
    pub fn fill(&self, css: &str, text: &str) {
        let id = self.element(css);
        self.ask("POST", &format!("/element/{id}/clear"), Some(&json!({}))).unwrap();
        self.ask("POST", &format!("/element/{id}/value"), Some(&json!({"text": text}))).unwrap();
    }

    /// Presses keys while an element has the focus.
    #[track_caller]
    pub fn press(&self, css: &str, keys: &str) {
        self.wait_for_paint();
        let id = self.element(css);
        let body = json!({"text": keys});
        self.ask("POST", &format!("/element/{id}/value"), Some(&body)).unwrap();
    }

    /// Presses keys, wherever the focus is.
    #[track_caller]
    pub fn keys(&self, keys: &str) {
        self.wait_for_paint();
        let steps: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|step| json!({"type": step, "value": key})))
            .collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": steps});
        self.ask("POST", "/actions", Some(&json!({"actions": [keyboard]}))).unwrap();
    }

    /// Waits until the page is painted: Chromium drops keys that are pressed before, even once the page
    /// is loaded.
    #[track_caller]
    fn wait_for_paint(&self) {
        let begun = Instant::now();
        while self.run("return performance.getEntriesByType('paint').length") == 0 {
            assert!(begun.elapsed() < PATIENCE, "{} is not painted", self.url());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Moves the pointer to an element.
    #[track_caller]
    pub fn point_at(&self, css: &str) {
        let origin = json!({ELEMENT: self.element(css)});
        let step = json!({"type": "pointerMove", "duration": 50, "origin": origin, "x": 0, "y": 0});
        let mouse = json!({"type": "pointer", "id": "mouse", "actions": [step]});
        self.ask("POST", "/actions", Some(&json!({"actions": [mouse]}))).unwrap();
    }

    /// Drags an element to another with the mouse; again if the page has replaced one of them
    /// meanwhile.
    #[track_caller]
    pub fn drag(&self, from: &str, to: &str) {
        let drag = || {
            let at = |css: &str| {
                let origin = json!({ELEMENT: self.element(css)});
                json!({"type": "pointerMove", "duration": 50, "origin": origin, "x": 0, "y": 0})
            };
            let steps = json!([at(from), {"type": "pointerDown", "button": 0}, at(to),
                {"type": "pointerUp", "button": 0}]);
            let mouse = json!({"type": "pointer", "id": "mouse", "actions": steps});
            self.ask("POST", "/actions", Some(&json!({"actions": [mouse]})))
        };
        let begun = Instant::now();
        while let Err(error) = drag() {
            assert!(error.contains("stale") && begun.elapsed() < PATIENCE, "{error}");
            self.ask("DELETE", "/actions", None).unwrap();
        }
    }

    /// The value of a field.
    #[track_caller]
    pub fn value(&self, css: &str) -> String {
        let id = self.element(css);
        let value = self.ask("GET", &format!("/element/{id}/property/value"), None).unwrap();
        value.as_str().unwrap_or_default().into()
    }

    /// What a person reads on the page.
    pub fn text(&self) -> String {
        let read = || {
            let id = self.find("body")?;
            self.ask("GET", &format!("/element/{id}/text"), None)
        };
        read().ok().and_then(|text| Some(text.as_str()?.to_string())).unwrap_or_default()
    }

    /// Waits until the page shows a text.
    #[track_caller]
    pub fn shows(&self, text: &str) {
        let begun = Instant::now();
        while !self.text().contains(text) {
            let (url, shown) = (self.url(), self.text());
            assert!(begun.elapsed() < PATIENCE, "no {text:?} at {url}:\n{shown}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What a script of the driver returns; works with the page's scripts off too.
    pub fn run(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        self.ask("POST", "/execute/sync", Some(&body)).unwrap()
    }

    /// What a script of the driver passes to its last argument, a function.
    pub fn run_async(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        self.ask("POST", "/execute/async", Some(&body)).unwrap()
    }

    /// Does something within one of the page's frames.
    pub fn within_frame<T>(&self, index: usize, act: impl FnOnce(&Self) -> T) -> T {
        self.ask("POST", "/frame", Some(&json!({"id": index}))).unwrap();
        let done = act(self);
        self.ask("POST", "/frame", Some(&json!({"id": null}))).unwrap();
        done
    }

    /// Shows pages as on another medium (`print`; empty: the screen), to whom prefers less motion or
    /// not.
    pub fn show_on(&self, medium: &str, is_calm: bool) {
        let motion = if is_calm { "reduce" } else { "no-preference" };
        let features = json!([{"name": "prefers-reduced-motion", "value": motion}]);
        let media = json!({"cmd": "Emulation.setEmulatedMedia",
            "params": {"media": medium, "features": features}});
        self.ask("POST", "/goog/cdp/execute", Some(&media)).unwrap();
    }

    /// Pictures the page, as a PNG.
    pub fn picture(&self) -> Vec<u8> {
        use base64::Engine as _;
        let png = self.ask("GET", "/screenshot", None).unwrap();
        base64::engine::general_purpose::STANDARD.decode(png.as_str().unwrap()).unwrap()
    }
}
