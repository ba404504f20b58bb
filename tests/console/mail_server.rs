//! A mail server on this machine, which takes every mail.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use roadstead::app::ServerConfig;
use roadstead::outside::smtp::{SmtpConfig, SmtpUrl};

/// A mail server.
pub struct MailServer {
    url: String,
    mails: Receiver<String>,
}

impl MailServer {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("smtp://{}?tls=none", listener.local_addr().unwrap());
        let (note, mails) = channel();
        // The thread ends with the process.
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let _ = take(stream, &note);
            }
        });
        MailServer { url, mails }
    }

    /// The configuration of a server that sends its mail here.
    pub fn config(&self) -> ServerConfig {
        let url = SmtpUrl::parse(&self.url).unwrap();
        let from = "roadstead@acme.test".into();
        let smtp = Some(SmtpConfig { url, from, extra_roots_pem: None });
        ServerConfig { smtp, ..ServerConfig::default() }
    }

    /// The link to this path in the next mail that has one.
    #[track_caller]
    pub fn link_to(&self, path: &str) -> String {
        loop {
            let mail = self.mails.recv_timeout(Duration::from_secs(60)).expect("a mail in time");
            // A long line is folded, and what marks that is marked, too.
            let mail = mail.replace("=\n", "").replace("=3D", "=");
            let mut words = mail.split_whitespace();
            if let Some(link) = words.find(|word| word.contains(&format!("{path}#"))) {
                return link.into();
            }
        }
    }
}

/// Speaks with one client, and passes on the mail.
fn take(mut stream: TcpStream, note: &Sender<String>) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    stream.write_all(b"220 mail.test\r\n")?;
    while let Some(line) = lines.next() {
        match line?.to_ascii_uppercase().as_str() {
            "DATA" => {
                stream.write_all(b"354 Go on\r\n")?;
                let mut mail = String::new();
                for line in lines.by_ref() {
                    let line = line?;
                    if line == "." {
                        break;
                    }
                    mail.push_str(&line);
                    mail.push('\n');
                }
                let _ = note.send(mail);
                stream.write_all(b"250 Taken\r\n")?;
            }
            "QUIT" => return stream.write_all(b"221 Bye\r\n"),
            _ => stream.write_all(b"250 mail.test\r\n")?,
        }
    }
    Ok(())
}
