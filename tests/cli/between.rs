//! A connection through which a test sees what a command sends, and may hold it up.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// Forwards connections to a server.
pub struct Between {
    /// Where it listens.
    pub url: String,
    /// The first line of every request.
    pub requests: Arc<Mutex<Vec<String>>>,
    held: mpsc::Receiver<mpsc::Sender<()>>,
}

impl Between {
    /// Forwards to the server at `to`. The first request that begins with `hold` waits for
    /// [`Between::meanwhile`].
    pub fn start(to: SocketAddr, hold: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (seen, held) = mpsc::channel();
        let hold = Arc::new(Mutex::new(hold.map(|hold| (hold.to_string(), seen))));
        let lines = requests.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(to).unwrap());
                let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (hold, lines) = (hold.clone(), lines.clone());
                thread::spawn(move || copy(client, server, |bytes| see(bytes, &lines, &hold)));
                thread::spawn(move || copy(forth, back, |_| ()));
            }
        });
        Between { url, requests, held }
    }

    /// Does something while the request waits, and lets it go on.
    pub fn meanwhile(&self, change: impl FnOnce()) {
        let go = self.held.recv_timeout(Duration::from_secs(30)).expect("the request is sent");
        change();
        go.send(()).unwrap();
    }
}

type Hold = Mutex<Option<(String, mpsc::Sender<mpsc::Sender<()>>)>>;

fn see(bytes: &[u8], lines: &Mutex<Vec<String>>, hold: &Hold) {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().next().unwrap_or_default();
    if line.ends_with(" HTTP/1.1") {
        lines.lock().unwrap().push(line.to_string());
    }
    let held = hold.lock().unwrap().take_if(|(prefix, _)| line.starts_with(&**prefix));
    if let Some((_, seen)) = held {
        let (go, gone_on) = mpsc::channel();
        seen.send(go).unwrap();
        let _ = gone_on.recv();
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, see: impl Fn(&[u8])) {
    let mut bytes = [0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes).unwrap_or(0);
        see(&bytes[..read]);
        if read == 0 || to.write_all(&bytes[..read]).is_err() {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
    }
}
